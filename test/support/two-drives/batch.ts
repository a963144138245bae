import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ServiceProcess } from '../service-process.ts'
import { accountOf, compare } from './account.ts'
import { Freshness } from './freshness.ts'
import type { Who } from './history.ts'
import { Holder } from './holder.ts'
import { Machine } from './machine.ts'
import type { Step } from './operations.ts'
import { Finding, Run } from './run.ts'
import { shortened } from './tokens.ts'
import { Witness } from './witness.ts'

/** What was done and seen in a batch. */
export interface Tally {
  readonly acknowledged: number
  readonly kills: number
  /** Kills of a drive that had changes which the service lacked. */
  readonly killsWithUnsent: number
  /** Drives that did not end when they were told to leave. */
  readonly hungLeaves: number
  /** Contents that were compared with what the drive had heard. */
  readonly compared: number
  /** Renames of content that the other machine did away with before it was read here. */
  readonly lateRenames: number
}

export interface BatchSettings {
  /** How much later than changes the listing is. */
  readonly lagMs: number
  /** Number of the first run, for its names. */
  readonly first: number
}

/** In so many listings after all is quiet a drive shows what the account has. */
const LISTINGS = 12
/** What comes in the end may take its time on a machine that is busy. */
const LIMIT_MS = 120_000
const PAUSE_MS = 40
const BOTH = ['A', 'B'] as const
const TTL_MS: Record<Who, number> = { A: 800, B: 300 }

/** Runs side by side on one pair of drives: what is done to a drive meets all of them. */
export class Batch {
  readonly #dir: string
  readonly #service: ServiceProcess
  readonly #witness: Witness
  readonly #holder: Holder
  readonly #machines: Readonly<Record<Who, Machine>>
  readonly #freshness: Freshness
  #runs: readonly Run[] = []
  #kills = 0
  #killsWithUnsent = 0
  #lateRenames = 0
  #hasFailed = false

  private constructor(
    parts: {
      readonly dir: string
      readonly service: ServiceProcess
      readonly witness: Witness
      readonly holder: Holder
      readonly machines: Readonly<Record<Who, Machine>>
    },
    settings: BatchSettings,
  ) {
    this.#dir = parts.dir
    this.#service = parts.service
    this.#witness = parts.witness
    this.#holder = parts.holder
    this.#machines = parts.machines
    this.#freshness = new Freshness(parts.witness, settings)
  }

  /** A closes through, B back. */
  static async start(settings: BatchSettings): Promise<Batch> {
    const dir = mkdtempSync(join(tmpdir(), 'bagfs-two-'))
    const service = await ServiceProcess.start(join(dir, 'service'))
    const witness = await Witness.start(service.url, settings)
    const holder = Holder.start()
    const start = (who: Who, ...args: readonly string[]): Promise<Machine> =>
      Machine.start(
        { holder, witness },
        {
          ...{ who, dir: join(dir, who), ttlMs: TTL_MS[who] },
          args: ['--listing-lag', `${settings.lagMs === 0 ? 500 : settings.lagMs}ms`, ...args],
        },
      )
    const [A, B] = await Promise.all([start('A'), start('B', '--write-back')])
    return new Batch({ dir, service, witness, holder, machines: { A, B } }, settings)
  }

  /** Rejects with all that tells why when one of them finds something. */
  async go(all: readonly (readonly Step[])[], { first }: BatchSettings): Promise<Tally> {
    const deps = {
      ...{ holder: this.#holder, witness: this.#witness },
      ...{ machines: this.#machines, freshness: this.#freshness, events: [] },
      onKill: (who: Who) => {
        this.#kills += 1
        if (this.#runs.some((run) => run.hasUnsent(who))) this.#killsWithUnsent += 1
      },
    }
    const runs = all.map((steps, index) => ({ steps, run: new Run(deps, `r${first + index}-`) }))
    this.#runs = runs.map(({ run }) => run)
    await this.#both(runs.map(({ run, steps }) => this.#told(run, () => this.#do(run, steps))))
    await this.#told(undefined, () => this.#settle())
    for (const run of this.#runs) await this.#told(run, () => this.#check(run))
    const due = BOTH.map((who) => this.#requireListing(this.#machines[who]))
    await this.#told(undefined, () => this.#both(due))
    return {
      acknowledged: this.#runs.reduce((sum, { ledger }) => sum + ledger.acknowledged.size, 0),
      ...{ kills: this.#kills, killsWithUnsent: this.#killsWithUnsent },
      hungLeaves: this.#machines.A.hungLeaves + this.#machines.B.hungLeaves,
      compared: this.#freshness.compared,
      lateRenames: this.#lateRenames,
    }
  }

  async close(): Promise<void> {
    for (const who of BOTH) await this.#machines[who].close()
    await this.#holder.end()
    await this.#witness.close()
    await this.#service.close()
    rmSync(this.#dir, { recursive: true, force: true })
  }

  async #do(run: Run, steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      if (this.#hasFailed) return
      await run.do(step)
    }
  }

  /** Until the service has everything, and nothing is left to do. */
  async #settle(): Promise<void> {
    const machines = BOTH.map((who) => this.#machines[who])
    await Promise.all(machines.map((machine) => machine.calm()))
    for (const run of this.#runs) await run.end()
    const end = performance.now() + LIMIT_MS
    for (;;) {
      for (const machine of machines) await machine.sync().catch(() => undefined)
      for (const machine of machines) this.#lateRenames += (await machine.giveUpRenames()).length
      const waiting = await this.#waiting()
      if (waiting.length === 0) return
      if (performance.now() > end) {
        const what = waiting.map(({ who, name, state }) => `${who} ${name}: ${state}`)
        throw new Finding(`The service still lacks:\n${what.join('\n')}`)
      }
      await pause()
    }
  }

  async #waiting() {
    const all = await Promise.all(
      BOTH.map(async (who) => {
        const items = await this.#machines[who].waiting()
        return items.map((item) => ({ ...item, who }))
      }),
    )
    return all.flat()
  }

  /** All that was acknowledged is in the account, and both drives show what is in it and nothing else. */
  async #check(run: Run): Promise<void> {
    const { ledger, prefix } = run
    const lost = run.lostRestores()
    if (lost.length > 0) throw new Finding(`Restored, and lost: ${lost.join(' ')}`)
    const missing = ledger.missing()
    if (missing.length > 0) {
      throw new Finding(`Acknowledged, and lost: ${missing.map(shortened).join(' ')}`)
    }
    const tooSoon = ledger
      .goneTooSoon()
      .map(({ token, at, by }) => `${shortened(token)} by ${by} at ${at.toFixed(0)}`)
    if (tooSoon.length > 0) throw new Finding(`In no bag for a while: ${tooSoon.join(', ')}`)
    for (const who of BOTH) await this.#requireSame(this.#machines[who], prefix)
  }

  /** Counted in listings: how long these take is the machine's business. */
  async #requireSame(machine: Machine, prefix: string): Promise<void> {
    const { history } = this.#witness
    const end = performance.now() + LIMIT_MS
    for (;;) {
      const { changedAt } = history
      const at = performance.now()
      const shown = await this.#holder.tree(machine.who, prefix)
      const difference = compare(accountOf(history.living(prefix)), shown)
      if (difference === undefined) return
      const heard = this.#freshness.listingsSince(machine, changedAt, at)
      if (heard > LISTINGS || performance.now() > end) {
        throw new Finding(`${machine.who} shows after ${heard} listings:\n${difference}`)
      }
      await pause()
    }
  }

  /** A look when the last listing is older than its time to live causes a request for one. */
  async #requireListing({ who, ttlMs }: Machine): Promise<void> {
    const { listings } = this.#witness
    const looks = [
      () => this.#holder.names(who),
      () => this.#holder.stat(who, 'no such file').catch(() => undefined),
    ]
    for (const look of looks) {
      const before = await this.#old(who, ttlMs)
      await look()
      const end = performance.now() + LIMIT_MS
      while (listings.count(who) === before) {
        if (performance.now() > end) throw new Finding(`${who} asks for no listing when one is due`)
        await pause()
      }
    }
  }

  /** Resolves when no listing was asked for during a time to live; answers how many there were till then. */
  async #old(who: Who, ttlMs: number): Promise<number> {
    const { listings } = this.#witness
    for (;;) {
      const before = listings.count(who)
      await new Promise((resolve) => setTimeout(resolve, ttlMs + 300))
      if (listings.count(who) === before) return before
    }
  }

  async #both(tasks: readonly Promise<void>[]): Promise<void> {
    const outcomes = await Promise.allSettled(tasks)
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  }

  /** Adds what a person needs to find the cause from the output alone. */
  async #told(run: Run | undefined, task: () => Promise<void>): Promise<void> {
    try {
      await task()
    } catch (error) {
      this.#hasFailed = true
      const prefix = run?.prefix ?? 'none'
      const parts = [
        error instanceof Finding ? error.message : String((error as Error).stack),
        `Run ${prefix}`,
        ...(run?.diary() ?? this.#runs.flatMap((each) => each.diary().slice(-3))),
        ...['Bags', ...this.#witness.history.told(prefix)],
        ...['Requests', ...this.#witness.said(prefix)],
        ...['Operations that hang', ...this.#holder.waiting()],
        ...BOTH.flatMap((who) => [`Log of ${who}`, this.#machines[who].log(prefix)]),
      ]
      throw new Error(parts.join('\n'), { cause: error })
    }
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
}
