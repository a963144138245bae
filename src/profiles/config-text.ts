import type { Document } from 'yaml'
import { isMap, isScalar, LineCounter, parseDocument, type ParsedNode, type YAMLMap } from 'yaml'
import { isAbsolute } from 'node:path'
import {
  MOUNT_OPTION_KEYS,
  MOUNT_OPTIONS,
  optionName,
  parseWrittenValue,
  type MountOptionKey,
} from '../config/options.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import { isProfileName, type Profile, type Profiles, type WrittenOption } from './profile.ts'

const HEADER = ` bagfs: accounts by name, and the options of their drives. bagfs login adds to it.
 Each option of "bagfs mount --help" can be written here without its dashes, such as
   cache-size: 20GB
 What is given on the command line or in the environment goes before it: see "bagfs config".`

/** The words of the parser may repeat what is there, which may be a secret at the wrong place. */
const FAULTS: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: 'this name is there twice; each may be there once',
  TAB_AS_INDENT: 'the line begins with a tab; spaces are expected',
  BAD_INDENT:
    'a bracket before it is not closed, or the line is indented otherwise than its neighbours',
  MISSING_CHAR: 'a closing quote, bracket or comma is expected',
  MULTIPLE_DOCS: 'a second document begins here; one is expected',
}
const OTHER_FAULT = 'lines such as "name: value" are expected'

const OPTION_OF_NAME: ReadonlyMap<string, MountOptionKey> = new Map(
  MOUNT_OPTION_KEYS.map((key) => [optionName(key), key]),
)

/** A value of the file, and the line that it begins in. */
interface ConfigEntry {
  readonly key: string
  readonly line: number
  readonly value: ParsedNode | null
}

/** What is written of one profile; what is undefined is taken out, all else in it stays. */
export interface ProfileChange {
  readonly account?: string | undefined
  readonly token?: 'keyring' | undefined
  readonly options: Readonly<Partial<Record<MountOptionKey, string | undefined>>>
}

/** The text of a config file. What a person wrote into it, comments too, stays where it is when it is changed. */
export class ConfigText {
  readonly #document: Document.Parsed
  readonly #lines = new LineCounter()
  readonly #path: string

  /** Rejects what cannot be understood with `usage`, by file and line. */
  constructor(text: string, path: string) {
    this.#path = path
    this.#document = parseDocument(text, {
      // All values are texts, to be parsed as those of flags are: 022 stays 022.
      schema: 'failsafe',
      lineCounter: this.#lines,
      prettyErrors: false,
    })
    const [fault] = this.#document.errors
    if (fault === undefined) return
    throw this.#refuse(this.#lineAt(fault.pos[0]), FAULTS[fault.code] ?? OTHER_FAULT)
  }

  read(): Profiles {
    const found: { all: Profile[]; defaultName?: string; defaultLine?: number } = { all: [] }
    for (const entry of this.#entriesOf(this.#document.contents, 1)) {
      if (entry.key === 'default') {
        found.defaultName = this.#textOf(entry)
        found.defaultLine = entry.line
      } else if (entry.key === 'profiles') {
        for (const each of this.#entriesOf(entry.value, entry.line)) {
          found.all.push(this.#readProfile(each))
        }
      } else {
        throw this.#refuse(entry.line, `"default:" or "profiles:" is expected`)
      }
    }
    const { all, defaultName } = found
    if (defaultName === undefined) return { path: this.#path, all }
    if (!all.some(({ name }) => name === defaultName)) {
      const names = all.map(({ name }) => name).join(', ')
      const what = names === '' ? 'a profile of this file' : `one of ${names}`
      throw this.#refuse(found.defaultLine ?? 1, `default: ${what} is expected`)
    }
    return { path: this.#path, all, defaultName }
  }

  #readProfile({ key: name, line, value }: ConfigEntry): Profile {
    if (!isProfileName(name)) {
      throw this.#refuse(line, 'the name of a profile is expected, such as work')
    }
    const options = new Map<MountOptionKey, WrittenOption>()
    let account: string | undefined
    let usesKeyring = false
    for (const entry of this.#entriesOf(value, line)) {
      const option = OPTION_OF_NAME.get(entry.key)
      if (option !== undefined) options.set(option, this.#readOption(option, entry))
      else if (entry.key === 'account') account = this.#textOf(entry)
      else if (entry.key === 'token') usesKeyring = this.#readKeyring(entry)
      else throw this.#unknown(entry)
    }
    return { name, usesKeyring, options, ...(account === undefined ? {} : { account }) }
  }

  #readOption(key: MountOptionKey, entry: ConfigEntry): WrittenOption {
    const text = this.#textOf(entry)
    try {
      parseWrittenValue(key, text)
    } catch (error) {
      if (!isDriveError(error, 'usage')) throw error
      const { hint } = error.facts
      throw this.#refuse(entry.line, `${entry.key}: ${error.message}`, hint)
    }
    const isPath = ['path', 'optional-path'].includes(MOUNT_OPTIONS[key].kind)
    if (isPath && !['true', 'false'].includes(text) && !isAbsolute(text.replace(/^~\//, '/'))) {
      throw this.#refuse(entry.line, `${entry.key}: a path is expected that begins with / or ~/`)
    }
    return { text, line: entry.line }
  }

  #readKeyring(entry: ConfigEntry): boolean {
    if (this.#textOf(entry) === 'keyring') return true
    throw this.#refuse(
      entry.line,
      'token: "keyring" is expected, and never the token itself',
      'bagfs login keeps the token; token-file: names a file of yours that holds it.',
    )
  }

  #unknown({ key, line }: ConfigEntry): DriveError {
    const known = [...OPTION_OF_NAME.keys()].join(', ')
    return this.#refuse(line, `"${key}" is no option`, `Known are: ${known}.`)
  }

  #textOf({ key, line, value }: ConfigEntry): string {
    const text = isScalar(value) ? value.value : undefined
    if (typeof text === 'string' && text !== '') return text
    throw this.#refuse(line, `${key}: a value is expected after the colon`)
  }

  #entriesOf(node: ParsedNode | null, line: number): readonly ConfigEntry[] {
    if (node === null || (isScalar(node) && (node.value ?? '') === '')) return []
    if (!isMap(node)) throw this.#refuse(this.#lineAt(node.range[0], line), OTHER_FAULT)
    return node.items.map(({ key, value }) => {
      const at = this.#lineAt(key.range[0], line)
      if (!isScalar(key)) throw this.#refuse(at, OTHER_FAULT)
      return { key: String(key.value), line: at, value }
    })
  }

  #lineAt(offset: number, otherwise = 1): number {
    const { line } = this.#lines.linePos(offset)
    return line > 0 ? line : otherwise
  }

  #refuse(line: number, expected: string, hint?: string): DriveError {
    return new DriveError(
      'usage',
      `${this.#path}:${line}: ${expected.replace(/\.$/, '')}.`,
      hint === undefined ? {} : { hint },
    )
  }

  setProfile(name: string, { account, token, options }: ProfileChange): void {
    const profile = this.#mapAt(this.#mapAt(undefined, 'profiles'), name)
    const values = {
      account,
      ...Object.fromEntries(
        MOUNT_OPTION_KEYS.filter((key) => key in options).map((key) => [
          optionName(key),
          options[key],
        ]),
      ),
      token,
    }
    for (const [key, value] of Object.entries(values)) {
      if (value === undefined) profile.delete(key)
      else profile.set(key, value)
    }
  }

  removeProfile(name: string): void {
    this.#document.deleteIn(['profiles', name])
    if (this.#document.get('default') === name) this.#document.delete('default')
  }

  setDefault(name: string): void {
    this.#root().set('default', name)
  }

  toString(): string {
    return this.#document.toString({ lineWidth: 0 })
  }

  /** The map of a key, made when there is none. */
  #mapAt(parent: YAMLMap | undefined, key: string): YAMLMap {
    const above = parent ?? this.#root()
    const found = above.get(key, true) as unknown
    if (isMap(found)) return found
    const made = this.#document.createNode({}) as YAMLMap
    above.set(key, made)
    return made
  }

  #root(): YAMLMap {
    const document: Document = this.#document
    if (isMap(document.contents)) return document.contents
    const made = document.createNode({}) as YAMLMap
    document.contents = made
    document.commentBefore ??= HEADER
    return made
  }
}
