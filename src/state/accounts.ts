import { createHash, createHmac, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { z } from 'zod'
import { fromFileSystem } from '../domain/errors.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { readJsonIfThere } from '../disk/if-there.ts'
import { makePrivateDirectory } from '../disk/private-dir.ts'

const learned = z.object({
  uid: z.exactOptional(z.string()),
  authHeader: z.exactOptional(z.enum(['bearer', 'x-authorization'])),
})
/** What the service told of a login. `profiles` is by service and token, the latter as a digest with the salt of this file. */
const accounts = z.object({
  version: z.literal(1),
  salt: z.string().min(32),
  profiles: z.record(z.string(), learned),
})

type Learned = z.infer<typeof learned>
type Accounts = z.infer<typeof accounts>

/** Writers in other processes may come between reading and writing; then the change is made again. */
const TRIES = 5

/** Directory of one account under the root: readable, and never shared by two accounts. */
export function stateDirFor(root: string, serviceKey: string, uid: string): string {
  const readable = serviceKey
    .replace(/^[a-z]+:\/*/, '')
    .replace(/[^A-Za-z0-9.-]+/g, '_')
    .slice(0, 40)
  const hash = createHash('sha256')
    .update(JSON.stringify([serviceKey, uid]))
    .digest('hex')
  return join(root, `${readable}-${hash.slice(0, 16)}`)
}

/** The account that this token had when the service last told, for a mount without network. */
export async function recallUid(
  root: string,
  serviceKey: string,
  token: string,
): Promise<string | undefined> {
  return (await readLearned(root, serviceKey, token)).uid
}

export async function rememberUid(
  root: string,
  serviceKey: string,
  token: string,
  uid: string,
): Promise<void> {
  await changeLearned(root, { serviceKey, token }, { uid })
}

/** The header in which this service took this token. */
export async function recallAuthHeader(
  root: string,
  serviceKey: string,
  token: string,
): Promise<Learned['authHeader']> {
  return (await readLearned(root, serviceKey, token)).authHeader
}

export async function rememberAuthHeader(
  root: string,
  serviceKey: string,
  token: string,
  authHeader: 'bearer' | 'x-authorization',
): Promise<void> {
  await changeLearned(root, { serviceKey, token }, { authHeader })
}

/** A service and the token that it is used with. */
interface Login {
  readonly serviceKey: string
  readonly token: string
}

async function readLearned(root: string, serviceKey: string, token: string): Promise<Learned> {
  const known = await readAccounts(root)
  return known?.profiles[keyOf({ serviceKey, token }, known.salt)] ?? {}
}

async function changeLearned(root: string, login: Login, changes: Learned): Promise<void> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const known = (await readAccounts(root)) ?? begin()
    const key = keyOf(login, known.salt)
    const before = known.profiles[key] ?? {}
    const after = { ...before, ...changes }
    if (before.uid === after.uid && before.authHeader === after.authHeader) return
    await writeAccounts(root, { ...known, profiles: { ...known.profiles, [key]: after } })
  }
}

function begin(): Accounts {
  return { version: 1, salt: randomBytes(16).toString('hex'), profiles: {} }
}

async function writeAccounts(root: string, changed: Accounts): Promise<void> {
  try {
    await makePrivateDirectory(root)
    const text = `${JSON.stringify(changed, undefined, 2)}\n`
    await writeFileAtomic(join(root, 'accounts.json'), text, { durable: true })
  } catch (error) {
    throw fromFileSystem(error, 'The state directory cannot be written')
  }
}

/** A file that cannot be understood is as good as none: the service tells everything again. */
async function readAccounts(root: string): Promise<Accounts | undefined> {
  const path = join(root, 'accounts.json')
  return accounts.safeParse(await readJsonIfThere(path, 'The state directory cannot be read')).data
}

/** The token itself is never stored, nor a digest that could be looked up in a table. */
function keyOf({ serviceKey, token }: Login, salt: string): string {
  return createHmac('sha256', salt)
    .update(JSON.stringify([serviceKey, token]))
    .digest('hex')
}
