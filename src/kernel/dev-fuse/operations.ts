import { attributeOperations } from './attribute-operations.ts'
import type { Operations, SessionContext } from './context.ts'
import { directoryOperations } from './directory-operations.ts'
import { extendedOperations } from './extended-operations.ts'
import { fileOperations } from './file-operations.ts'
import { nameOperations } from './name-operations.ts'
import { namelessOperations } from './nameless-operations.ts'
import { rangeOperations } from './range-operations.ts'
import { DONE } from './answer.ts'

/**
 * The operations that have an answer of their own. All others are answered with ENOSYS: the kernel then keeps locks
 * itself, and takes files as always ready (POLL).
 */
export function allOperations(context: SessionContext): Operations {
  return {
    ...attributeOperations(context),
    ...directoryOperations(context),
    ...nameOperations(context),
    ...fileOperations(context),
    ...namelessOperations(context),
    ...rangeOperations(context),
    ...extendedOperations(context),
    DESTROY: () => DONE,
  }
}
