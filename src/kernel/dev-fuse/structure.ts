/** How a number is laid out; `u64` and `i64` are exact up to 2^53. All are of the machine's byte order: little endian. */
const WIDTHS = { u16: 2, u32: 4, i32: 4, u64: 8, i64: 8 } as const
type FieldType = keyof typeof WIDTHS
const WORD = 2 ** 32

/** Fields of a structure by name, in their order. Names that begin with `_` are padding: zero, and never read. */
type Layout = Readonly<Record<string, FieldType>>
type Shown<Fields extends Layout> = Exclude<keyof Fields & string, `_${string}`>

/** The values of a structure. */
export type Values<Fields extends Layout> = { readonly [Key in Shown<Fields>]: number }

/** A message of the kernel that cannot be what the protocol says. */
export class MalformedMessage extends Error {}

interface Placed {
  readonly name: string
  readonly type: FieldType
  readonly at: number
}

/** A structure of the protocol: encoded for one side, decoded for the other. */
export class Structure<Fields extends Layout> {
  readonly size: number
  readonly #fields: readonly Placed[]

  constructor(layout: Fields) {
    const fields: Placed[] = []
    let at = 0
    for (const [name, type] of Object.entries(layout)) {
      if (!name.startsWith('_')) fields.push({ name, type, at })
      at += WIDTHS[type]
    }
    this.size = at
    this.#fields = fields
  }

  /** Reads the structure that begins at `start`; throws `MalformedMessage` where `bytes` ends before it does. */
  decode(bytes: Buffer, start = 0): Values<Fields> {
    if (start + this.size > bytes.length) throw new MalformedMessage('The message is too short.')
    const values: Record<string, number> = {}
    for (const { name, type, at } of this.#fields) values[name] = read(bytes, type, start + at)
    return values as Values<Fields>
  }

  encode(values: Values<Fields>): Buffer {
    const bytes = Buffer.alloc(this.size)
    this.encodeInto(values, bytes, 0)
    return bytes
  }

  /** Writes all but the padding. */
  encodeInto(values: Values<Fields>, bytes: Buffer, start: number): void {
    const given: Readonly<Record<string, number>> = values
    for (const { name, type, at } of this.#fields) write(bytes, type, start + at, given[name] ?? 0)
  }
}

function read(bytes: Buffer, type: FieldType, at: number): number {
  switch (type) {
    case 'u16':
      return bytes.readUInt16LE(at)
    case 'u32':
      return bytes.readUInt32LE(at)
    case 'i32':
      return bytes.readInt32LE(at)
    case 'u64':
      return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * WORD
    case 'i64':
      return bytes.readUInt32LE(at) + bytes.readInt32LE(at + 4) * WORD
  }
}

function write(bytes: Buffer, type: FieldType, at: number, value: number): void {
  switch (type) {
    case 'u16':
      bytes.writeUInt16LE(value, at)
      return
    case 'u32':
      bytes.writeUInt32LE(value, at)
      return
    case 'i32':
      bytes.writeInt32LE(value, at)
      return
    case 'u64':
    case 'i64':
      writeWide(bytes, at, value)
      return
  }
}

/** `>>> 0` makes the two's complement of a negative half. */
function writeWide(bytes: Buffer, at: number, value: number): void {
  const high = Math.floor(value / WORD)
  bytes.writeUInt32LE((value - high * WORD) >>> 0, at)
  bytes.writeUInt32LE(high >>> 0, at + 4)
}
