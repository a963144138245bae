import { isDriveError } from '../../domain/errors.ts'

/** Runs a task that writes to the local disk; once more where that was full and `makeRoom` could change it. */
export async function withDiskRoom<Result>(
  task: () => Promise<Result>,
  makeRoom: () => Promise<boolean>,
): Promise<Result> {
  try {
    return await task()
  } catch (error) {
    if (!isDriveError(error, 'local-disk-full') || !(await makeRoom())) throw error
    return task()
  }
}
