import { expect, test } from 'vitest'
import { toFailure } from '../../../src/cli/errors.ts'
import { DriveError } from '../../../src/domain/errors.ts'

test.each([
  ['usage', 2],
  ['unauthorized', 3],
  ['forbidden', 3],
  ['not-found', 4],
  ['gone', 4],
  ['unavailable', 5],
  ['timed-out', 5],
  ['no-space', 6],
  ['locked', 7],
  ['busy', 7],
  ['corrupt', 1],
] as const)('%s has exit code %d and no stack', (code, exitCode) => {
  const failure = toFailure(new DriveError(code, 'It went wrong.'))
  expect(failure.exitCode).toBe(exitCode)
  expect(failure.text).toMatch(/^bagfs: It went wrong\./)
  expect(failure.text).not.toContain('    at ')
})

test('the hint of the error goes before the one of its code', () => {
  const error = new DriveError('unauthorized', 'No.', { hint: 'Do this.' })
  expect(toFailure(error).text).toBe('bagfs: No.\n  Do this.')
})

test('what may have been done is not told to be tried again at once', () => {
  const error = new DriveError('unavailable', 'Cut.', { answerLost: true })
  const told = 'It may have been done all the same: look with bagfs ls before you try it again.'
  expect(toFailure(error).text).toBe(`bagfs: Cut.\n  ${told}`)
  const hinted = new DriveError('server-error', 'No.', { answerLost: true, hint: 'Wait.' })
  expect(toFailure(hinted).text).toBe(`bagfs: No.\n  Wait.\n  ${told}`)
})

test('anything else is a bug to report, with its stack and exit code 70', () => {
  const failure = toFailure(new TypeError('x is not a function'))
  expect(failure.exitCode).toBe(70)
  expect(failure.text).toContain('please report')
  expect(failure.text).toContain('errors.test.ts')
  expect(toFailure('thrown text')).toMatchObject({ exitCode: 70 })
})
