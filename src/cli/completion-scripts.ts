import type { CommandEntry, OptionEntry, ValueKind } from './command-tree.ts'

/** Names of profiles, one a line. */
const PROFILES = 'bagfs profiles --names 2>/dev/null'

const FOR_BASH: Readonly<Record<ValueKind['is'], string>> = {
  words: '',
  file: '_bagfs_paths -f',
  directory: '_bagfs_paths -d',
  profile: `_bagfs_words "$(${PROFILES})"`,
  target: `_bagfs_paths -d; _bagfs_targets`,
  free: ':',
}

/** For bash 4 and newer: `source <(bagfs completion bash)`. */
export function forBash(commands: readonly CommandEntry[]): string {
  const names = commands.map(({ name }) => name).join(' ')
  const values = commands.flatMap(({ name, options }) =>
    options.filter(takesValue).map((option) => {
      const patterns = spellings(option).map((spelling) => `${name}:${spelling}`)
      return `  ${patterns.join('|')}) ${actionInBash(option.value)} ;;`
    }),
  )
  const withValue = commands.flatMap(({ name, options }) =>
    options
      .filter(takesValue)
      .flatMap((option) => spellings(option).map((spelling) => `${name}:${spelling}`)),
  )
  const flags = commands.map(
    ({ name, options }) => `  ${name}) _bagfs_words '${options.flatMap(spellings).join(' ')}' ;;`,
  )
  const places = commands.flatMap(({ name, arguments: all }) =>
    all.map(({ value }, index) => {
      const pattern = index === all.length - 1 ? `${name}:*` : `${name}:${index}`
      return `  ${pattern}) ${actionInBash(value)} ;;`
    }),
  )
  return scriptForBash({ names, withValue, values, flags, places })
}

interface BashParts {
  readonly names: string
  /** `command:--option` of those that take a value. */
  readonly withValue: readonly string[]
  /** Branches of `case`: what completes a value, a flag, and what stands at a place. */
  readonly values: readonly string[]
  readonly flags: readonly string[]
  readonly places: readonly string[]
}

function scriptForBash({ names, withValue, values, flags, places }: BashParts): string {
  return `# Completion of bagfs for bash. Load it in ~/.bashrc: source <(bagfs completion bash)
_bagfs_words() { COMPREPLY+=($(compgen -W "$1" -- "$cur")); }
_bagfs_paths() {
  local IFS=$'\\n'
  compopt -o filenames
  COMPREPLY+=($(compgen "$1" -- "$cur"))
}
_bagfs_targets() {
  local names
  names=$(${PROFILES})
  [ -z "$names" ] || { compopt -o nospace; COMPREPLY+=($(compgen -S : -W "$names" -- "$cur")); }
}
_bagfs_has_value() {
  case $1 in
  ${withValue.join('|')}) return 0 ;;
  *) return 1 ;;
  esac
}
_bagfs() {
  local cur=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]}
  local command='' place=0 before='' word
  COMPREPLY=()
  # bash splits at = and :
  if [ "$cur" = '=' ]; then cur=''; elif [ "$previous" = '=' ]; then previous=\${COMP_WORDS[COMP_CWORD - 2]}; fi
  if [ "$cur" = ':' ]; then cur=''; fi
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [ -z "$command" ]; then
      case $word in -*) ;; *) command=$word ;; esac
    elif ! _bagfs_has_value "$command:$before"; then
      case $word in -*) ;; *) place=$((place + 1)) ;; esac
    fi
    before=$word
  done
  if [ -z "$command" ]; then
    _bagfs_words '${names} --help --version'
    return
  fi
  case $command:$previous in
${values.map((line) => line.replace(' ;;', '; return ;;')).join('\n')}
  esac
  case $cur in
  -*)
    case $command in
${indent(flags)}
    esac
    return
    ;;
  esac
  case $command:$place in
${places.join('\n')}
  esac
}
complete -F _bagfs bagfs
`
}

function actionInBash(value: ValueKind): string {
  return value.is === 'words' ? `_bagfs_words '${value.words.join(' ')}'` : FOR_BASH[value.is]
}

function indent(lines: readonly string[]): string {
  return lines.map((line) => `  ${line}`).join('\n')
}

const FOR_ZSH: Readonly<Record<ValueKind['is'], string>> = {
  words: '',
  file: '_files',
  directory: '_files -/',
  profile: '_bagfs_profiles',
  target: '_bagfs_targets',
  free: '',
}

/** For zsh: a file `_bagfs` in a directory of `fpath`, or `source <(bagfs completion zsh)`. */
export function forZsh(commands: readonly CommandEntry[]): string {
  const named = commands.map(({ name, help }) => `    ${inQuotes(`${name}:${help}`)}`)
  const cases = commands.map((command) => {
    const specs = [
      ...command.options.flatMap(optionInZsh),
      ...command.arguments.map(({ name, value }, index) => {
        const place = index === command.arguments.length - 1 ? '*' : String(index + 1)
        return inQuotes(`${place}:${name}:${actionInZsh(value)}`)
      }),
    ]
    return `    ${command.name})\n      _arguments \\\n        ${specs.join(' \\\n        ')}\n      ;;`
  })
  return `#compdef bagfs
# Completion of bagfs for zsh: as a file _bagfs in a directory of $fpath, or in ~/.zshrc, after compinit:
#   source <(bagfs completion zsh)
_bagfs_profiles() {
  local -a names
  names=(\${(f)"$(${PROFILES})"})
  compadd -a names
}
_bagfs_targets() {
  local -a names
  names=(\${(f)"$(${PROFILES})"})
  if compset -P '*:'; then _files -/; else compadd -S : -a names; _files -/; fi
}
_bagfs() {
  local curcontext=$curcontext state line
  local -a commands
  commands=(
${named.join('\n')}
  )
  _arguments -C '1:command:->command' '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $words[1] in
${cases.join('\n')}
    esac
    ;;
  esac
}
if [ "\${funcstack[1]}" = _bagfs ]; then _bagfs "$@"; else compdef _bagfs bagfs; fi
`
}

function optionInZsh(option: OptionEntry): readonly string[] {
  const help = option.help.replace(/[[\]\\:]/g, String.raw`\$&`)
  const value = {
    nothing: '',
    maybe: `::value:${actionInZsh(option.value)}`,
    always: `:value:${actionInZsh(option.value)}`,
  }[option.takes]
  return spellings(option).map((spelling) => inQuotes(`${spelling}[${help}]${value}`))
}

function actionInZsh(value: ValueKind): string {
  return value.is === 'words' ? `(${value.words.join(' ')})` : FOR_ZSH[value.is]
}

const FOR_FISH: Readonly<Record<ValueKind['is'], string>> = {
  words: '',
  file: '-F',
  directory: `-x -a '(__fish_complete_directories)'`,
  profile: `-x -a '(${PROFILES})'`,
  target: `-x -a '(__fish_complete_directories) (${PROFILES} | string replace -r "\\$" :)'`,
  free: '-x',
}

/** For fish: `bagfs completion fish > ~/.config/fish/completions/bagfs.fish`. */
export function forFish(commands: readonly CommandEntry[]): string {
  const lines = commands.flatMap(({ name, help, options, arguments: all }) => {
    const where = `complete -c bagfs -n '__fish_seen_subcommand_from ${name}'`
    return [
      `complete -c bagfs -n __fish_use_subcommand -a ${name} -d ${inFish(help)}`,
      ...options.map((option) => {
        const short = option.short === undefined ? '' : ` -s ${option.short.slice(1)}`
        const value = option.takes === 'always' ? ` -r ${actionInFish(option.value)}` : ''
        return `${where}${short} -l ${option.long.slice(2)}${value} -d ${inFish(option.help)}`
      }),
      ...all.flatMap(({ value }, index) => {
        const isLast = index === all.length - 1
        const place = `test (__bagfs_place) ${isLast ? '-ge' : '-eq'} ${index}`
        const here = where.replace(/'$/, `; and ${place}'`)
        return value.is === 'free' ? [] : [`${here} ${actionInFish(value).replace(/^-x /, '')}`]
      }),
    ]
  })
  return `# Completion of bagfs for fish: bagfs completion fish > ~/.config/fish/completions/bagfs.fish
function __bagfs_place
  math (count (commandline -opc | string match -v -- '-*')) - 2
end
complete -c bagfs -f
${lines.join('\n')}
`
}

function actionInFish(value: ValueKind): string {
  return value.is === 'words' ? `-x -a '${value.words.join(' ')}'` : FOR_FISH[value.is]
}

function inFish(text: string): string {
  return `'${text.replace(/['\\]/g, String.raw`\$&`)}'`
}

function inQuotes(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

function takesValue({ takes }: OptionEntry): boolean {
  return takes === 'always'
}

function spellings({ short, long }: OptionEntry): readonly string[] {
  return short === undefined ? [long] : [short, long]
}
