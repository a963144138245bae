import { resolve } from 'node:path'
import {
  MOUNT_OPTION_KEYS,
  MOUNT_OPTIONS,
  optionName,
  type MountFlags,
  type MountOption,
  type MountOptionKey,
} from '../config/options.ts'

/** They say how this command goes on, and nothing of the drive. */
const OF_COMMAND: readonly MountOptionKey[] = ['foreground', 'background']

/** The options that were typed, by their texts, as words for another shell: without its working directory. */
export function typedOptions(
  flags: MountFlags,
  texts: ReadonlyMap<MountOptionKey, string>,
): readonly string[] {
  const keys = MOUNT_OPTION_KEYS.filter((key) => !OF_COMMAND.includes(key))
  return keys.flatMap((key) => {
    const value = flags[key]
    if (value === undefined) return []
    const name = optionName(key)
    if (typeof value === 'boolean') return [value ? `--${name}` : `--no-${name}`]
    const { kind }: MountOption = MOUNT_OPTIONS[key]
    const isPath = kind === 'path' || kind === 'optional-path'
    const text = isPath && typeof value === 'string' ? resolve(value) : (texts.get(key) ?? '')
    return [`--${name}=${text}`]
  })
}
