import { once } from 'node:events'
import { resolve } from 'node:path'
import { InvalidArgumentError, Option } from '@commander-js/extra-typings'
import type { Command } from '@commander-js/extra-typings'
import { LOG_LEVELS } from '../config/options.ts'
import { isLoopback } from '../config/service-url.ts'
import { parseSize } from '../config/sizes.ts'
import { readTokenFile } from '../config/token.ts'
import { DriveError } from '../domain/errors.ts'
import { asOptionParser } from './account.ts'
import type { CommandContext } from './context.ts'
import { keepLocalToken } from './local-token.ts'
import { createStderrLogger } from './logging.ts'
import { listenForStop } from './signals.ts'

const DEFAULT_PORT = 7790

interface ServeFlags {
  readonly data: string
  readonly host: string
  readonly port: number
  readonly tokenFile?: string
  readonly capacity: number
  readonly logLevel: (typeof LOG_LEVELS)[number]
  readonly logJson?: true
}

export function addServe(program: Command, context: CommandContext): void {
  program
    .command('serve')
    .description('run the embedded service: an account on this machine')
    .requiredOption('--data <dir>', 'directory for its data; made when missing')
    .option('--port <port>', 'port to listen on; 0 takes any free one', parsePort, DEFAULT_PORT)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--token-file <file>', 'file that holds the token (default: one is made in the data)')
    .addOption(
      new Option('--capacity <size>', 'capacity of the account')
        .default(parseSize('1GB'), '1GB')
        .argParser(asOptionParser(parseSize)),
    )
    .addOption(
      new Option('--log-level <level>', 'how much to log')
        .choices(LOG_LEVELS)
        .default('warn' as const),
    )
    .option('--log-json', 'log as JSON, one object per line')
    .action((flags) => serve(context, flags))
}

async function serve({ output }: CommandContext, flags: ServeFlags): Promise<void> {
  if (!isLoopback(flags.host) && flags.tokenFile === undefined) {
    throw new DriveError('usage', `${flags.host} can be reached from other machines.`, {
      hint: 'Give --token-file with a token of your own, or leave out --host.',
    })
  }
  if (!isLoopback(flags.host)) {
    output.warn(
      `${flags.host} can be reached from other machines, and nothing is encrypted: others on the network can read the token and the files.`,
    )
  }
  const signals = listenForStop()
  const dataDir = resolve(flags.data)
  const token = await chooseToken({ output }, flags, dataDir)
  const log = createStderrLogger(output, [token], {
    level: flags.logLevel,
    json: flags.logJson === true,
  })
  const { host, port, capacity: capacityBytes } = flags
  // Loaded here: no other command waits for a web server to load.
  const { startLocalService } = await import('../local-service/server.ts')
  const service = await startLocalService(
    { dataDir, host, port, tokens: [token], capacityBytes },
    { log },
  )
  output.line(service.url)
  if (!signals.stop.aborted) await once(signals.stop, 'abort')
  await service.close()
  signals.ignore()
}

async function chooseToken(
  { output }: Pick<CommandContext, 'output'>,
  flags: ServeFlags,
  dataDir: string,
): Promise<string> {
  if (flags.tokenFile !== undefined) return readTokenFile(flags.tokenFile)
  const { token, path, isNew } = await keepLocalToken(dataDir)
  output.note(`${isNew ? 'Made a token' : 'The token is'} in ${path}.`)
  return token
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : NaN
  if (port <= 65_535) return port
  throw new InvalidArgumentError('A port is a number from 0 to 65535.')
}
