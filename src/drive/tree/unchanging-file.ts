import type { DriveError } from '../../domain/errors.ts'
import { OpenFile } from './open-file.ts'
import type { StagedFile } from './staged-file.ts'

/** An open file that takes no change, and that no node stands for: what is written to it is refused. */
export abstract class UnchangingFile extends OpenFile {
  /** What a write is told. */
  protected abstract refusal(): DriveError

  override get nodeId(): undefined {
    return undefined
  }

  protected override draft(): undefined {
    return undefined
  }

  protected override stage(): Promise<StagedFile> {
    return Promise.reject(this.refusal())
  }

  protected override isCurrent(): boolean {
    return false
  }

  protected override noteOtherSize(): void {
    // It never gets another size.
  }

  protected override keep(): Promise<void> {
    return Promise.resolve()
  }
}
