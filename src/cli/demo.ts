import { mkdir, rm, rmdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import { systemClock } from '../domain/clock.ts'
import { fromFileSystem, isAbsent, systemErrorCode } from '../domain/errors.ts'
import { silentLogger } from '../domain/logger.ts'
import type { StorageService } from '../service/storage-service.ts'
import { createHttpService } from '../service/http-service.ts'
import type { CommandContext } from './context.ts'
import type { MountJob, ServiceChoice } from './mount-job.ts'
import { mountHere } from './mount-here.ts'
import { packFolder } from './pack-folder.ts'
import { planMount } from './plan-mount.ts'
import { writeSampleFiles } from './sample-files.ts'
import { listenForStop } from './signals.ts'
import type { StopSignals } from './signals.ts'

/** Adds the hidden command behind `npm start`: a drive for a trial, gone without a trace when it ends. */
export function addDemo(program: Command, context: CommandContext): void {
  program.command('demo', { hidden: true }).action(() => runDemo(context))
}

async function runDemo(context: CommandContext): Promise<void> {
  const mountpoint = resolve('drive')
  const demoDir = resolve('.bagfs-demo')
  // From before the first directory is made until the last is gone: Ctrl-C never leaves any.
  const signals = listenForStop()
  try {
    const job = await planDemo(context, mountpoint, demoDir)
    await runTrial(context, { job, signals, mountpoint, demoDir })
  } finally {
    signals.ignore()
  }
}

interface Trial {
  readonly job: MountJob
  readonly signals: StopSignals
  readonly mountpoint: string
  readonly demoDir: string
}

async function runTrial(context: CommandContext, trial: Trial): Promise<void> {
  const { job, signals, mountpoint, demoDir } = trial
  try {
    await putSamples(job.service, demoDir)
    signals.stop.throwIfAborted()
    await mountHere(context.output, job, {
      signals,
      onReady: () => {
        context.output.note(whatToTry(mountpoint))
      },
    })
  } finally {
    await rm(demoDir, { recursive: true, force: true })
    await removeMountpoint(mountpoint)
  }
}

async function planDemo(
  context: CommandContext,
  mountpoint: string,
  demoDir: string,
): Promise<MountJob> {
  const madeMountpoint = await makeMountpoint(mountpoint)
  try {
    // Of no profile: a trial is the same for all people.
    return await planMount(context, mountpoint, {
      options: {
        local: join(demoDir, 'data'),
        stateDir: join(demoDir, 'state'),
        logLevel: 'warn',
      },
    })
  } catch (error) {
    if (madeMountpoint) await removeMountpoint(mountpoint)
    throw error
  }
}

/** Fills a new account; one that a killed trial has left is taken as it is. */
async function putSamples(choice: ServiceChoice, demoDir: string): Promise<void> {
  if (choice.kind !== 'local') return
  const { startLocalService } = await import('../local-service/server.ts')
  const { dataDir, token } = choice
  const local = await startLocalService({ dataDir, tokens: [token] }, { log: silentLogger })
  const service = createHttpService(
    { log: silentLogger, clock: systemClock },
    { baseUrl: local.url, token },
  )
  try {
    if ((await service.listFiles()).length === 0) await uploadSamples(service, demoDir)
  } finally {
    await service.close()
    await local.close()
  }
}

async function uploadSamples(service: StorageService, demoDir: string): Promise<void> {
  const directory = join(demoDir, 'samples')
  await mkdir(directory, { recursive: true })
  const { files, folders } = await writeSampleFiles(directory)
  const description = 'A sample that came with bagfs'
  for (const name of files) {
    const path = join(directory, name)
    await service.uploadFile({ path, length: (await stat(path)).size, name, description })
  }
  for (const name of folders) {
    const path = join(demoDir, `${name}.zip`)
    const length = await packFolder(join(directory, name), path, {
      onSkipped: () => undefined,
    })
    await service.uploadFolder({ path, length, name, description })
  }
  await rm(directory, { recursive: true })
}

function whatToTry(mountpoint: string): string {
  return `
Your drive is at ${mountpoint}. Open it in a file manager, or in another terminal:

  ls -l drive
  cat drive/Welcome.txt
  cp README.md drive/ && ls -l drive
  echo "one more line" >> drive/Welcome.txt
  cat drive/.bagfs/status

It is a trial: Ctrl-C unmounts it and deletes everything in it.
A drive that stays: bagfs login, then bagfs mount DIRECTORY. README.md has more.
`
}

/** True when the directory was made; false when it was there. */
async function makeMountpoint(path: string): Promise<boolean> {
  try {
    await mkdir(path)
    return true
  } catch (error) {
    if (systemErrorCode(error) === 'EEXIST') return false
    throw fromFileSystem(error, `Making ${path}`)
  }
}

/** Never removes more than an empty directory: while a drive is mounted there, it fails and says so. */
async function removeMountpoint(path: string): Promise<void> {
  try {
    await rmdir(path)
  } catch (error) {
    if (!isAbsent(error)) throw fromFileSystem(error, `Removing ${path}`)
  }
}
