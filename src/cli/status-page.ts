import { fileURLToPath } from 'node:url'
import { hasDisplay } from '../config/desktop.ts'
import { systemClock } from '../domain/clock.ts'
import { loadPageFiles } from '../web/page-files.ts'
import { PageServer } from '../web/page-server.ts'
import { Watcher } from '../web/watcher.ts'
import type { CommandContext } from './context.ts'
import { findOneDrive } from './drive-places.ts'
import { createStderrLogger } from './logging.ts'
import { openByDesktop } from './open-by-desktop.ts'
import { listenForStop } from './signals.ts'
import { watchDrive } from './watch-drive.ts'

/** Where the build puts it. */
const PAGE = new URL('page/', import.meta.url)

/** `bagfs status --web`: serves the page of a drive until a signal ends it. */
export async function showStatusPage(
  { output }: CommandContext,
  path: string | undefined,
): Promise<void> {
  const found = await findOneDrive(path)
  const signals = listenForStop()
  const log = createStderrLogger(output)
  const drive = watchDrive(found, log)
  const watcher = new Watcher({ drive, clock: systemClock })
  const files = await loadPageFiles(fileURLToPath(PAGE))
  const server = await PageServer.start({ drive, watcher, files, log })
  try {
    output.line(server.link)
    output.note(
      'This link works once, in a browser of yours on this machine. Ctrl-C ends the page.',
    )
    if (hasDisplay())
      openByDesktop(server.link, (sentence) => {
        output.note(sentence)
      })
    await watcher.run(signals.stop)
  } finally {
    await server.close()
    signals.ignore()
  }
}
