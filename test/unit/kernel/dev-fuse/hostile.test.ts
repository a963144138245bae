import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { silentLogger } from '../../../../src/domain/logger.ts'
import { OPCODES, type OpcodeName } from '../../../../src/kernel/dev-fuse/opcodes.ts'
import { IN_HEADER } from '../../../../src/kernel/dev-fuse/structures.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'
import { SEED, seededRandom } from '../../../support/seed.ts'
import { SyntheticKernel, texts } from '../../../support/synthetic-kernel.ts'

const MESSAGES = 10_000
const LONGEST_BODY_BYTES = 200
const NODES = 6
/** What has no answer. */
const UNANSWERED: ReadonlySet<number> = new Set([
  OPCODES.FORGET,
  OPCODES.BATCH_FORGET,
  OPCODES.INTERRUPT,
  OPCODES.NOTIFY_REPLY,
])

/** Makes messages that are nearly right: numbers of any kind, names that may be there, and then some bits turned. */
class MessageMaker {
  readonly #random: () => number
  readonly #opcodes = Object.values(OPCODES)

  constructor(seed: number) {
    this.#random = seededRandom(seed)
  }

  below(limit: number): number {
    return Math.floor(this.#random() * limit)
  }

  make(unique: bigint): Buffer {
    const opcode = this.below(20) === 0 ? this.below(5000) : this.#opcode()
    const parts = [this.#numbers(), texts(...this.#names()), this.#noise(this.below(20))]
    const message = SyntheticKernel.message(opcode, unique, this.below(NODES), parts)
    return this.#spoilt(message, unique)
  }

  #opcode(): number {
    const known = this.#opcodes[this.below(this.#opcodes.length)] ?? 0
    // A session that was ended answers nothing more.
    return known === OPCODES.INIT || known === OPCODES.DESTROY ? OPCODES.LOOKUP : known
  }

  #numbers(): Buffer {
    const bytes = Buffer.alloc(8 * this.below(12))
    for (let at = 0; at < bytes.length; at += 8) {
      const kind = this.below(4)
      if (kind === 0) this.#noise(8).copy(bytes, at)
      else bytes.writeUInt32LE(this.below(kind === 1 ? 4 : 5000), at)
    }
    return bytes
  }

  #names(): readonly string[] {
    const names = ['a', 'b', 'folder', '', '..', 'x'.repeat(300), 'user.bagfs.description']
    return Array.from({ length: this.below(3) }, () => names[this.below(names.length)] ?? '')
  }

  #noise(length: number): Buffer {
    return Buffer.from(Uint8Array.from({ length }, () => this.below(256)))
  }

  #spoilt(message: Buffer, unique: bigint): Buffer {
    const kind = this.below(10)
    if (kind === 0) return message.subarray(0, this.below(message.length))
    if (kind === 1) return this.#noise(this.below(LONGEST_BODY_BYTES))
    for (let count = this.below(4); count > 0; count -= 1) {
      const at = this.below(message.length)
      message[at] = (message[at] ?? 0) ^ (1 << this.below(8))
    }
    message.writeBigUInt64LE(unique, 8)
    return message
  }
}

/** The number of a message that is answered, or undefined. */
function answeredNumber(message: Buffer): bigint | undefined {
  if (message.length < 16) return undefined
  const isWhole = message.length >= IN_HEADER.size && message.readUInt32LE(0) === message.length
  if (isWhole && UNANSWERED.has(message.readUInt32LE(4))) return undefined
  return message.readBigUInt64LE(8)
}

describe('messages that are random, or nearly right', () => {
  it('are each answered once, and harm nothing', { timeout: 120_000 }, async () => {
    const dir = mkdtempSync(join(tmpdir(), 'bagfs-messages-'))
    const service = await TestService.start(join(dir, 'service'), { capacityBytes: 1_000_000 })
    const home = await DriveInProcess.open({
      url: service.proxy.url,
      token: service.token,
      dir: join(dir, 'state'),
      writeBack: true,
    })
    try {
      console.log(`BAGFS_SEED=${SEED}`)
      const bugs: string[] = []
      const error = (fields: object): void => {
        bugs.push(JSON.stringify(fields))
      }
      const kernel = await SyntheticKernel.start({
        drive: home.drive,
        log: { ...silentLogger, error },
        isToStop: () => false,
      })
      const maker = new MessageMaker(SEED)
      const asked = new Map<bigint, number>()
      for (let index = 0; index < MESSAGES; index += 1) {
        const message = maker.make(BigInt(1_000 + index))
        const number = answeredNumber(message)
        if (number !== undefined) asked.set(number, (asked.get(number) ?? 0) + 1)
        kernel.session.receive(message)
        // The drive gets on with what it was asked.
        if (index % 20 === 0) await new Promise((resolve) => setImmediate(resolve))
      }
      await expect.poll(() => kernel.session.load.waiting, { timeout: 30_000 }).toBe(0)
      const wrong = [...asked].filter(([number, times]) => kernel.answers.get(number) !== times)
      expect(wrong).toEqual([])
      expect(bugs).toEqual([])
      expect(
        [...kernel.answers.keys()].filter((number) => number >= 1000n && !asked.has(number)),
      ).toEqual([])
      const alive: OpcodeName = 'STATFS'
      expect((await kernel.ask(alive, 1)).error).toBeUndefined()
    } finally {
      await home.drop()
      await service.close()
      rmSync(dir, { recursive: true, force: true })
    }
  })
})
