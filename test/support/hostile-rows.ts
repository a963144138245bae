import { gzipSync } from 'node:zlib'
import type { Body, HostileAnswer, IdOf } from './hostile-answer.ts'
import type { Endpoint } from './hostile-service.ts'

/**
 * One answer that no sound service gives, and what the program sees that meets it.
 *
 * To add one, add a row: `answer` says how the bytes differ from a sound answer (hostile-answer.ts has
 * the words), and the test does the rest. It makes files of its own for the row and lets programs meet the
 * answer, by the endpoint: `ls`, `df`, `cat`, `mv`, `>>`, `>`, `rm`. It asserts the same for every row. A kind of answer that cannot be said yet is one more field of HostileAnswer.
 */
export interface HostileRow {
  readonly name: string
  readonly endpoint: Endpoint
  readonly answer: HostileAnswer
  /** So many requests meet it; all until the service is well when undefined. */
  readonly times?: number
  /** It needs a drive in a process of its own: it could end or hang it, or waits for a deadline. */
  readonly onMount?: boolean
  /** It ends at a deadline or at the size of the cache: both are small for it. */
  readonly hasLimits?: boolean
  /** How the program ends: `df`, `cat`, `>`, `rm`, `touch .bags/ID`. An `ls` always succeeds. */
  readonly expects: 'error' | 'success' | 'either'
}

const HTML = { 'content-type': 'text/html; charset=utf-8' }
const BYTES = { 'content-type': 'application/octet-stream' }
const GZIP = { 'content-encoding': 'gzip' }
const PAGE = '<!doctype html><html><head><title>Sign in</title></head><body>Please.</body></html>'
const DETAIL = JSON.stringify({ detail: 'Something went wrong.' })
const NESTED = '['.repeat(30_000) + ']'.repeat(30_000)
const MEBIBYTE = 2 ** 20

/** Answers that are wrong wherever they come; each makes a row of every endpoint that it is given for. */
const EVERYWHERE: readonly Pick<HostileRow, 'name' | 'answer' | 'onMount'>[] = [
  { name: 'an error with status 200', answer: { body: DETAIL } },
  { name: 'a page with status 200', answer: { headers: HTML, body: PAGE } },
  { name: 'nothing, with status 204', answer: { status: 204, body: '' } },
  {
    name: 'a part that nobody asked for',
    answer: { status: 206, body: (sound) => sound.subarray(1) },
  },
  { name: 'a redirect to itself', answer: { status: 302, headers: { location: '?' }, body: '' } },
  {
    name: 'a redirect to another server',
    answer: { status: 307, headers: { location: 'http://127.0.0.2:9/' }, body: '' },
  },
  { name: 'a refused token', answer: { status: 401, body: DETAIL } },
  { name: 'a status that nobody knows', answer: { status: 299, body: DETAIL } },
  { name: 'an error of the server as JSON nested deep', answer: { status: 500, body: NESTED } },
  { name: 'a closed connection', answer: { closeAfter: 0 } },
  { name: 'the half of a head', answer: { closeAfter: 20 } },
  { name: 'the head and then the end', answer: { closeAfter: 100 } },
  { name: 'a length that is no number', answer: { statedLength: () => 'many' } },
  { name: 'a length that is too great', answer: { statedLength: (length) => length + 10 } },
  { name: 'compressed bytes that are none', answer: { headers: GZIP, body: 'not gzip' } },
]

function records(sound: Buffer, more: readonly unknown[]): string {
  return JSON.stringify([...(JSON.parse(sound.toString()) as unknown[]), ...more])
}

/** The service is there, and that is all. */
const SILENCES: readonly Pick<HostileRow, 'name' | 'answer' | 'hasLimits'>[] = [
  { name: 'never a word', answer: { silence: true }, hasLimits: true },
  { name: 'a byte, and never another', answer: { dripMs: 3_600_000 }, hasLimits: true },
]

/** Of each, some bytes come all the time. */
const DRIPS: typeof SILENCES = [
  { name: 'a byte now and then', answer: { headers: BYTES, dripMs: 25 }, hasLimits: true },
  {
    name: 'a byte now and then after the first ones',
    answer: { headers: BYTES, dripMs: 25, dripAfter: 3_000 },
    hasLimits: true,
  },
  {
    name: 'a byte now and then of content without a length',
    answer: { headers: BYTES, version: '1.0', end: 'close', dripMs: 25 },
    hasLimits: true,
  },
  {
    name: 'a byte now and then, without end',
    answer: { headers: BYTES, end: 'chunks', dripMs: 25, isEndless: true },
    hasLimits: true,
  },
  {
    name: 'a body without end',
    answer: { headers: BYTES, end: 'chunks', isEndless: true },
    hasLimits: true,
  },
]

/** A listing with what is known, and such a record. */
function withRecord(record: unknown): (sound: Buffer) => Body {
  return (sound) => records(sound, [record])
}

const odd = { filename: 'odd', size: 1, uploaded_at: 1, description: '', bag_id: 'odd' }

const LISTINGS: readonly Pick<HostileRow, 'name' | 'answer' | 'onMount'>[] = [
  { name: 'a number', answer: { body: '5' } },
  { name: 'an object', answer: { body: '{}' } },
  {
    name: 'a record nested deep',
    answer: { body: (sound) => records(sound, []).replace(/]$/, `,${NESTED}]`) },
  },
  { name: 'the half of a list', answer: { body: (sound) => sound.subarray(0, sound.length / 2) } },
  {
    name: 'the half of a list, closed',
    answer: { end: 'close', version: '1.0', body: (sound) => sound.subarray(0, sound.length / 2) },
  },
  { name: 'records of other types', answer: { body: withRecord([[1], {}, null, 'x']) } },
  { name: 'a size below nothing', answer: { body: withRecord({ ...odd, size: -1 }) } },
  { name: 'a size with a fraction', answer: { body: withRecord({ ...odd, size: 1.5 }) } },
  { name: 'a size that is no number', answer: { body: withRecord({ ...odd, size: 'NaN' }) } },
  {
    name: 'a size of 200,000 digits',
    answer: { body: withRecord({ ...odd, size: '1'.repeat(200_000) }) },
  },
  {
    name: 'a size of 200,000 digits and a letter',
    answer: { body: withRecord({ ...odd, size: `${'1'.repeat(200_000)}x` }) },
  },
  {
    name: 'every record twice',
    answer: { body: (sound) => records(sound, JSON.parse(sound.toString()) as unknown[]) },
  },
  {
    name: 'an id with half a character',
    answer: { body: withRecord({ ...odd, bag_id: '\ud800' }) },
  },
  { name: 'an id of steps', answer: { body: withRecord({ ...odd, bag_id: '../../user' }) } },
  { name: 'an id of 1 MB', answer: { body: withRecord({ ...odd, bag_id: 'x'.repeat(MEBIBYTE) }) } },
  {
    name: 'a name with slashes',
    answer: { body: withRecord({ ...odd, filename: '../odd/../x' }) },
  },
  { name: 'a name with NUL', answer: { body: withRecord({ ...odd, filename: 'odd\0' }) } },
  {
    name: 'a name of 1 MB',
    answer: { body: withRecord({ ...odd, filename: 'odd'.repeat(MEBIBYTE / 3) }) },
  },
  { name: 'a name that is a list', answer: { body: withRecord({ ...odd, filename: ['odd'] }) } },
  { name: 'a time that never was', answer: { body: withRecord({ ...odd, uploaded_at: 1e308 }) } },
  { name: 'the answer of another endpoint', answer: { body: '{"bag_id":"odd"}' } },
]

const ACCOUNTS: typeof EVERYWHERE = [
  { name: 'a list', answer: { body: '[]' } },
  {
    name: 'room that is no number',
    answer: { body: '{"uid":"hostile-user","space_left":"NaN","capacity":null}' },
  },
  {
    name: 'room of 200,000 digits',
    answer: { body: `{"uid":"hostile-user","space_left":"${'1'.repeat(200_000)}x","capacity":1}` },
  },
]

const UPLOADS: typeof EVERYWHERE = [
  { name: 'no id', answer: { body: '{}' } },
  { name: 'an empty id', answer: { body: '{"bag_id":""}' } },
  { name: 'an id that is a number', answer: { body: '{"bag_id":5}' } },
  { name: 'an empty id for what is stored', answer: { isDone: true, body: '{"bag_id":""}' } },
  { name: 'no id for what is stored', answer: { isDone: true, body: '{}' } },
  { name: 'the answer of another endpoint', answer: { body: '{"success":true}' } },
]

/** Ids that the account has already: of what is cached, of what is not, and of what is to be replaced. */
const OTHER_BAGS = ['read', 'unread', 'replaced'].map((name): (typeof EVERYWHERE)[number] => {
  const body = (_sound: Buffer, idOf: IdOf): string => JSON.stringify({ bag_id: idOf(name) })
  return { name: `the id of the bag "${name}"`, answer: { body } }
})

/** As `OTHER_BAGS`. The name may be that of a bag which was stored a moment ago: its id is no known one then. */
const OTHER_BAGS_STORED = OTHER_BAGS.map(({ name, answer }): (typeof EVERYWHERE)[number] => {
  return { name: `${name} for what is stored`, answer: { ...answer, isDone: true } }
})

/**
 * The content stays here until a bag that has it was seen. Close of a new file succeeds, unless another upload was
 * answered with the same id at that moment.
 */
const NO_BAGS: typeof EVERYWHERE = [
  { name: 'the id of no bag', answer: { body: '{"bag_id":"0123456789abcdef"}' } },
  {
    name: 'the id of no bag for what is stored',
    answer: { isDone: true, body: '{"bag_id":"0123456789abcdef"}' },
  },
]

const NO_IDS: typeof EVERYWHERE = [
  { name: 'a word in place of an id', answer: { body: '{"bag_id":"Internal error"}' } },
  { name: 'a path in place of an id', answer: { body: '{"bag_id":"../../etc/passwd"}' } },
  {
    name: 'an id of 1 MB',
    answer: { body: JSON.stringify({ bag_id: 'x'.repeat(MEBIBYTE) }) },
  },
]

const DELETES: typeof EVERYWHERE = [
  { name: 'that it did not', answer: { body: '{"success":false}' } },
  { name: 'that it did not, and did', answer: { isDone: true, body: '{"success":false}' } },
  { name: 'neither', answer: { body: '{"success":"perhaps"}' } },
]

function rowsOf(
  endpoint: Endpoint,
  expects: HostileRow['expects'],
  ...lists: (readonly Pick<HostileRow, 'name' | 'answer' | 'onMount' | 'hasLimits'>[])[]
): HostileRow[] {
  return lists.flat().map((row) => ({ ...row, endpoint, expects }))
}

export const HOSTILE_ROWS: readonly HostileRow[] = [
  ...rowsOf('list', 'success', EVERYWHERE, LISTINGS, SILENCES),
  ...rowsOf('account', 'error', EVERYWHERE, ACCOUNTS, SILENCES),
  {
    name: 'room below nothing',
    endpoint: 'account',
    answer: { body: '{"uid":"hostile-user","space_left":-5,"capacity":-1}' },
    expects: 'success',
  },
  {
    name: 'another user',
    endpoint: 'account',
    answer: { body: '{"uid":"odd","space_left":5e8,"capacity":1e9}' },
    expects: 'success',
  },
  ...rowsOf('upload', 'error', EVERYWHERE, UPLOADS, OTHER_BAGS, NO_IDS, SILENCES),
  ...rowsOf('upload', 'either', OTHER_BAGS_STORED, NO_BAGS),
  ...rowsOf('folder upload', 'success', EVERYWHERE, UPLOADS, OTHER_BAGS, NO_IDS, SILENCES),
  ...rowsOf('folder upload', 'success', OTHER_BAGS_STORED, NO_BAGS),
  ...rowsOf('delete', 'either', EVERYWHERE, DELETES, SILENCES),
  ...rowsOf('add by id', 'error', EVERYWHERE, SILENCES),
  ...rowsOf('download', 'error', EVERYWHERE, SILENCES, DRIPS),
  {
    name: 'a body cut short by closing',
    endpoint: 'download',
    answer: {
      version: '1.0',
      end: 'close',
      headers: BYTES,
      body: (sound) => sound.subarray(0, sound.length / 2),
    },
    expects: 'error',
  },
  {
    name: 'zeros, compressed 1000:1',
    endpoint: 'list',
    onMount: true,
    answer: { headers: GZIP, body: () => gzipSync(`[${'0,'.repeat(50 * MEBIBYTE)}0]`) },
    expects: 'success',
  },
  {
    name: 'a body without end',
    endpoint: 'list',
    onMount: true,
    answer: { end: 'chunks', isEndless: true, body: ' '.repeat(MEBIBYTE) },
    expects: 'success',
  },
  {
    name: 'a byte a second',
    endpoint: 'list',
    answer: { dripMs: 1_000 },
    onMount: true,
    expects: 'success',
  },
  {
    name: 'a title, repeated',
    endpoint: 'list',
    answer: { status: 500, headers: HTML, body: '<title'.repeat(100_000) },
    expects: 'success',
  },
]
