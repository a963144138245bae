import type { DriveInProcess } from './drive-in-process.ts'

/** What the trash has, the newest first. */
export const kept = (user: DriveInProcess): readonly string[] =>
  user.drive.commands.trash.items().map(({ name, why, length }) => `${name} ${why} ${length}`)

/** Restores the newest of a name. Rejects as the trash does. */
export const restore = async (user: DriveInProcess, name: string, as?: string): Promise<void> => {
  const item = user.drive.commands.trash.items().find((each) => each.name === name)
  if (item === undefined) throw new Error(`${name} is not in the trash.`)
  await user.drive.commands.trash.restore(item.bagId, as === undefined ? {} : { name: as })
}
