import type { Freshness } from './freshness.ts'
import type { Who } from './history.ts'
import { FailedOperation, type Descriptor, type Holder } from './holder.ts'
import { Ledger } from './ledger.ts'
import type { LetGo, Machine } from './machine.ts'
import type { Change, Step } from './operations.ts'
import { makeToken, shortened } from './tokens.ts'
import type { Witness } from './witness.ts'

export interface RunDeps {
  readonly holder: Holder
  readonly witness: Witness
  readonly machines: Readonly<Record<Who, Machine>>
  readonly freshness: Freshness
  /** Called in the moment before a drive is killed. */
  readonly onKill: (who: Who) => void
  /** For what happens to a drive and meets all runs. */
  readonly events: string[]
}

/** What a model finds wrong. */
export class Finding extends Error {}

/** A file that a program holds open for writing. */
interface Held extends LetGo {
  readonly who: Who
  readonly file: Descriptor
  readonly isAppending: boolean
  /** Where the program writes next, by what it saw when it opened the file. */
  end: number
  /** Names that it may have: a rename may or may not have taken it along. */
  readonly names: Set<string>
  /** A program of the same machine removed it, or put another in its place, or may have. */
  isRemoved: boolean
  /** Written, and not acknowledged yet. */
  unsafe: string[]
  /** How many writes the run had seen when it was opened. */
  readonly openedAfter: number
}

interface Written {
  readonly who: Who
  readonly token: string
  readonly names: ReadonlySet<string>
  readonly by: Held | undefined
}

/** How long a look waits for the drive to ask for a listing. */
const LOOK_MS = 3_000
const PAUSE_MS = 60
/** How long a drive that asks for no listing may show what is gone, on the slowest machine. */
const STALE_MS = 120_000

/** What the programs of both machines do with files whose names begin with `prefix`, and what they were promised. */
export class Run {
  readonly prefix: string
  readonly ledger: Ledger
  readonly #deps: RunDeps
  readonly #diary: string[] = []
  readonly #held = new Set<Held>()
  readonly #written: Written[] = []
  /** Names to which a program of each machine renamed: what they show may have been stored long before. */
  readonly #renamedTo: Record<Who, Set<string>> = { A: new Set(), B: new Set() }
  #tokens = 0
  #restores = 0
  readonly #restored: string[] = []

  constructor(deps: RunDeps, prefix: string) {
    this.prefix = prefix
    this.ledger = new Ledger(deps.witness.history)
    this.#deps = deps
  }

  /** What was done, oldest first, with what was done to the drives. */
  diary(): readonly string[] {
    const all = [...this.#diary, ...this.#deps.events]
    return all.sort((one, other) => Number.parseFloat(one) - Number.parseFloat(other))
  }

  async do(step: Step): Promise<void> {
    switch (step.op) {
      case 'race':
        await this.#both([
          this.#change({ ...step.a, who: 'A' }),
          this.#change({ ...step.b, who: 'B' }),
        ])
        return
      case 'append together':
        await this.#appendTogether(step)
        return
      case 'look':
        await this.#look(this.#deps.machines[step.who])
        return
      case 'remount':
      case 'kill':
      case 'refuse':
      case 'slow':
      case 'away':
        await this.#trouble(step)
        return
      default:
        await this.#change(step)
    }
  }

  /** True while the service lacks something that programs of a machine were promised. */
  hasUnsent(who: Who): boolean {
    const { history } = this.#deps.witness
    return [...this.ledger.acknowledged].some(
      (token) =>
        token.startsWith(`<${this.prefix}${who}`) &&
        history.storedAt(token) === undefined &&
        !this.ledger.isAway(token),
    )
  }

  /** Leaves nothing open. */
  async end(): Promise<void> {
    for (const held of this.#held) {
      await this.#deps.machines[held.who].use(() => held.letGo())
    }
  }

  async #trouble(
    step: Extract<Step, { op: 'remount' | 'kill' | 'refuse' | 'slow' | 'away' }>,
  ): Promise<void> {
    const machine = this.#deps.machines[step.who]
    const say = (what: string): number =>
      this.#deps.events.push(`${performance.now().toFixed(0)} ${step.who} ${what}`)
    say('ms' in step ? `${step.op} for ${step.ms} ms` : step.op)
    switch (step.op) {
      case 'remount':
        await machine.remount()
        say('is mounted')
        return
      case 'kill':
        await machine.kill(() => {
          say('is killed')
          this.#deps.onKill(step.who)
        })
        say('is mounted')
        return
      case 'refuse':
      case 'slow':
      case 'away':
        // All runs go on meanwhile.
        machine.trouble(step.op, step.ms)
        return
    }
  }

  async #change(change: Change): Promise<void> {
    const machine = this.#deps.machines[change.who]
    await machine.use(() => this.#changeNow(machine, change))
  }

  async #changeNow(machine: Machine, change: Change): Promise<void> {
    switch (change.op) {
      case 'write': {
        const token = this.#token(machine, change.bytes)
        return this.#meaning(machine, change.file, token, () =>
          this.#put(machine, change.file, 'w', [token]),
        )
      }
      case 'append':
        return this.#put(machine, change.file, 'a', [this.#token(machine, change.bytes)])
      case 'replace':
        return this.#replace(machine, change.file, this.#token(machine, change.bytes))
      case 'hold':
        return this.#hold(machine, change.file, change.flags)
      case 'rename':
        return this.#rename(machine, change.file, change.to)
      case 'remove':
        return this.#remove(machine, change.file)
      case 'restore':
        return this.#restore(machine)
      default:
        return this.#changeHeld(machine, change)
    }
  }

  /** Under a name that nothing else takes: it has to be there in the end. */
  async #restore(machine: Machine): Promise<void> {
    this.#restores += 1
    const name = `${this.prefix}again-${this.#restores}`
    try {
      const was = await machine.restore(this.prefix, name)
      if (was === undefined) return
      this.#restored.push(name)
      this.#say(machine.who, `restored ${was} as ${name}`)
    } catch (error) {
      this.#say(machine.who, `restore ${name}: ${String(error)}`)
    }
  }

  /** Names of what was given back from a trash and is not in the account. */
  lostRestores(): readonly string[] {
    const living = this.#deps.witness.history.living(this.prefix)
    return this.#restored.filter((name) => !living.some((life) => life.name === name))
  }

  async #changeHeld(
    machine: Machine,
    change: Extract<Change, { op: 'write held' | 'sync held' | 'let go' }>,
  ): Promise<void> {
    switch (change.op) {
      case 'write held':
        for (const held of this.#heldBy(machine)) {
          await this.#writeHeld(held, this.#token(machine, change.bytes))
        }
        return
      case 'sync held':
        for (const held of this.#heldBy(machine)) await this.#syncHeld(held)
        return
      case 'let go':
        for (const held of this.#heldBy(machine)) await held.letGo()
        return
    }
  }

  async #appendTogether(step: Extract<Step, { op: 'append together' }>): Promise<void> {
    const machine = this.#deps.machines[step.who]
    await machine.use(() =>
      this.#both(
        step.programs.map((sizes) =>
          this.#put(
            machine,
            step.file,
            'a',
            sizes.map((bytes) => this.#token(machine, bytes)),
          ),
        ),
      ),
    )
  }

  /** All of them come to their end, also when one fails. */
  async #both(tasks: readonly Promise<void>[]): Promise<void> {
    const outcomes = await Promise.allSettled(tasks)
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  }

  /** Opens, writes and closes, as `>` and `>>` do; what was written is synced in between. */
  async #put(
    machine: Machine,
    name: string,
    flags: 'w' | 'a',
    tokens: readonly string[],
  ): Promise<void> {
    const { holder } = this.#deps
    if (name.includes('/')) await this.#makeFolder(machine, name)
    const file = await tried(holder.open(machine.who, this.prefix + name, flags))
    if (typeof file === 'string') {
      this.#say(machine.who, `open ${flags} ${name}: ${file}`)
      return
    }
    await this.#fill(machine, { name, file, how: flags, tokens }, (token) =>
      holder.write(file, token),
    )
  }

  /** Writes into an open file and closes it; each sync and the close acknowledge what was written by then. */
  async #fill(
    machine: Machine,
    {
      name,
      file,
      how,
      tokens,
    }: { name: string; file: Descriptor; how: string; tokens: readonly string[] },
    write: (token: string) => Promise<void>,
  ): Promise<void> {
    const { holder } = this.#deps
    const names = new Set([name])
    let unsafe: string[] = []
    let failure: string | undefined
    for (const [index, token] of tokens.entries()) {
      this.#written.push({ who: machine.who, token, names, by: undefined })
      if (index > 0 && (await failureOf(holder.sync(file))) === undefined) {
        unsafe = this.#promised(machine, name, unsafe)
      }
      failure = await failureOf(write(token))
      if (failure !== undefined) break
      unsafe.push(token)
    }
    const closed = await failureOf(holder.close(file))
    if (failure === undefined && closed === undefined) this.#promised(machine, name, unsafe)
    const said = [failure, closed].map((each) => each ?? 'ok').join(', ')
    this.#say(machine.who, `${how} ${name} ${shortened(tokens.join(''))} ${said}`)
  }

  /** Reads by the handle that then empties the file: just this version is done away with. */
  async #replace(machine: Machine, name: string, token: string): Promise<void> {
    const { holder } = this.#deps
    const file = await tried(holder.open(machine.who, this.prefix + name, 'r+'))
    if (typeof file === 'string') return
    await this.#fill(machine, { name, file, how: 'replace', tokens: [token] }, async () => {
      const content = await holder.readOpen(file)
      this.ledger.doAway(content, token)
      this.#say(machine.who, `replaces ${shortened(content)}`)
      await holder.truncate(file, 0)
      await holder.writeAt(file, token, 0)
    })
  }

  async #hold(machine: Machine, name: string, flags: 'a' | 'r+'): Promise<void> {
    const { holder } = this.#deps
    const { who } = machine
    if (flags === 'a' && name.includes('/')) await this.#makeFolder(machine, name)
    const file = await tried(holder.open(who, this.prefix + name, flags))
    if (typeof file === 'string') return
    const end = await tried(holder.size(file))
    if (typeof end === 'string') {
      await failureOf(holder.close(file))
      return
    }
    const held: Held = {
      ...{ who, file, isAppending: flags === 'a', end },
      ...{ names: new Set([name]), isRemoved: false, unsafe: [] },
      openedAfter: this.#written.length,
      letGo: () => this.#letGo(held),
    }
    this.#held.add(held)
    machine.holding.add(held)
    this.#say(who, `hold ${flags} ${name} of ${end} bytes`)
  }

  #heldBy({ who }: Machine): readonly Held[] {
    return [...this.#held].filter((held) => held.who === who)
  }

  async #writeHeld(held: Held, token: string): Promise<void> {
    const { holder } = this.#deps
    const { who, file, names } = held
    if (!held.isAppending) this.#overwrite(held)
    this.#written.push({ who, token, names, by: held })
    const failure = await failureOf(
      held.isAppending ? holder.write(file, token) : holder.writeAt(file, token, held.end),
    )
    this.#say(
      who,
      `held ${[...names].join('|')} at ${held.end} ${shortened(token)} ${failure ?? ''}`,
    )
    if (failure !== undefined) {
      held.unsafe = []
      await held.letGo()
      return
    }
    held.end += token.length
    held.unsafe.push(token)
    if (held.isRemoved) this.ledger.doAway(token)
  }

  /** Programs of one machine share a file: what others wrote since it was opened may be where this one writes. */
  #overwrite(held: Held): void {
    for (const { who, token, names, by } of this.#written.slice(held.openedAfter)) {
      const isMeant =
        who === held.who && by !== held && [...names].some((name) => held.names.has(name))
      if (isMeant) this.ledger.doAway(token)
    }
  }

  async #syncHeld(held: Held): Promise<void> {
    const failure = await failureOf(this.#deps.holder.sync(held.file))
    this.#say(held.who, `sync ${[...held.names].join('|')} ${failure ?? ''}`)
    if (failure === undefined) this.#acknowledgeHeld(held)
  }

  async #letGo(held: Held): Promise<void> {
    const machine = this.#deps.machines[held.who]
    this.#held.delete(held)
    machine.holding.delete(held)
    const failure = await failureOf(this.#deps.holder.close(held.file))
    this.#say(held.who, `let go ${[...held.names].join('|')} ${failure ?? ''}`)
    if (failure === undefined) this.#acknowledgeHeld(held)
  }

  #acknowledgeHeld(held: Held): void {
    const machine = this.#deps.machines[held.who]
    const [name = ''] = held.names
    held.unsafe = this.#promised(machine, held.names.size === 1 ? name : undefined, held.unsafe)
  }

  /** Acknowledges; answers that nothing is left. In mode through the service has it by then. */
  #promised(machine: Machine, name: string | undefined, tokens: readonly string[]): string[] {
    this.ledger.acknowledge(tokens)
    if (machine.who !== 'A' || name === undefined || name.includes('/')) return []
    const { history } = this.#deps.witness
    for (const token of tokens) {
      if (history.storedAt(token) !== undefined || this.ledger.isAway(token)) continue
      throw new Finding(
        `Mode through told success, and the service does not have ${shortened(token)}`,
      )
    }
    return []
  }

  async #rename(machine: Machine, from: string, to: string): Promise<void> {
    if (from === to) return
    if (to.includes('/')) await this.#makeFolder(machine, to)
    this.#renamedTo[machine.who].add(to)
    await this.#meaning(machine, to, undefined, async () => {
      const { prefix } = this
      const failure = await failureOf(
        this.#deps.holder.rename(machine.who, prefix + from, prefix + to),
      )
      this.#say(machine.who, `rename ${from} to ${to} ${failure ?? ''}`)
      if (failure === 'ENOENT') return
      this.#removed(machine, to)
      for (const { names } of this.#heldBy(machine)) if (names.has(from)) names.add(to)
    })
  }

  async #remove(machine: Machine, name: string): Promise<void> {
    await this.#meaning(machine, name, undefined, async () => {
      const failure = await failureOf(this.#deps.holder.remove(machine.who, this.prefix + name))
      this.#say(machine.who, `remove ${name} ${failure ?? ''}`)
      if (failure !== 'ENOENT') this.#removed(machine, name)
    })
  }

  #removed(machine: Machine, name: string): void {
    for (const held of this.#heldBy(machine)) {
      if (!held.names.has(name)) continue
      held.isRemoved = true
      this.ledger.doAway(held.unsafe.join(''))
    }
  }

  /**
   * Does away with what a name means to a machine: what it shows, and what is in a listing that the drive may take in
   * meanwhile. A program that cannot read a file leaves it alone.
   */
  async #meaning(
    machine: Machine,
    name: string,
    to: string | undefined,
    act: () => Promise<void>,
  ): Promise<void> {
    const from = performance.now()
    const seen = await this.#read(machine, name)
    if (seen === undefined) return
    this.ledger.doAway(seen, to)
    if (seen !== '') this.#say(machine.who, `does away with ${name} ${shortened(seen)}`)
    await act()
    const [top = '', inside = ''] = name.split('/')
    const { listings } = this.#deps.witness
    for (const listed of listings.during(machine.who, from, performance.now())) {
      this.ledger.doAwayListed({ listed, name: this.prefix + top, inside, to })
    }
  }

  /** The content of a file, '' where there is none; undefined when it cannot be read. */
  async #read(machine: Machine, name: string): Promise<string | undefined> {
    const at = performance.now()
    try {
      const content = await this.#deps.holder.read(machine.who, this.prefix + name)
      return await this.#requireFresh(machine, { name, content, at })
    } catch (error) {
      if (!(error instanceof FailedOperation)) throw error
      this.#say(machine.who, `read ${name}: ${error.code}`)
      return error.code === 'ENOENT' ? '' : undefined
    }
  }

  /** Rejects when the drive shows what it must have heard is gone; answers what it shows in the end. */
  async #requireFresh(
    machine: Machine,
    file: { readonly name: string; readonly content: string; readonly at: number },
  ): Promise<string> {
    const { freshness, holder } = this.#deps
    const { name } = file
    const isHeld = this.#heldBy(machine).some(({ names }) => names.has(name))
    if (isHeld || name.includes('/') || this.#renamedTo[machine.who].has(name)) return file.content
    for (let { content, at } = file; ;) {
      const judged = freshness.judge(machine, { name: this.prefix + name, content, at })
      if (judged === undefined) return content
      if (judged.heard > judged.allowed || at - file.at > STALE_MS) {
        const what = `${machine.who} shows ${name} as ${shortened(content)}`
        throw new Finding(`${what}, which ${judged.heard} listings told it is gone`)
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
      at = performance.now()
      content = await holder.read(machine.who, this.prefix + name)
    }
  }

  /** Reads all that a machine shows, until it has asked for a listing. */
  async #look(machine: Machine): Promise<void> {
    const { holder, witness } = this.#deps
    const begun = performance.now()
    const before = witness.listings.count(machine.who)
    do {
      await machine.use(async () => {
        const at = performance.now()
        const shown = await tried(holder.tree(machine.who, this.prefix))
        if (typeof shown === 'string') return
        for (const [path, content] of shown) {
          const name = path.slice(this.prefix.length)
          if (content === null || name.includes('(')) continue
          await this.#requireFresh(machine, { name, content, at }).catch(unlessFinding)
        }
      })
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    } while (
      witness.listings.count(machine.who) < before + 2 &&
      performance.now() - begun < LOOK_MS
    )
    this.#say(machine.who, 'looked')
  }

  async #makeFolder(machine: Machine, name: string): Promise<void> {
    const folder = this.prefix + (name.split('/')[0] ?? '')
    await failureOf(this.#deps.holder.makeDirectory(machine.who, folder))
  }

  #token({ who }: Machine, bytes: number): string {
    this.#tokens += 1
    return makeToken(`${this.prefix}${who}${this.#tokens}`, bytes)
  }

  #say(who: Who, what: string): void {
    this.#diary.push(`${performance.now().toFixed(0)} ${who} ${what}`)
  }
}

/** What was answered, or the errno's name. Other errors are the harness's own. */
async function tried<Value>(task: Promise<Value>): Promise<Value | string> {
  try {
    return await task
  } catch (error) {
    if (error instanceof FailedOperation) return error.code
    throw error
  }
}

/** The errno's name; undefined when it was done. */
async function failureOf(task: Promise<void>): Promise<string | undefined> {
  const answer = await tried(task)
  return typeof answer === 'string' ? answer : undefined
}

function unlessFinding(error: unknown): void {
  if (!(error instanceof FailedOperation)) throw error
}
