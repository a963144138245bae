import { Argument, type Command } from '@commander-js/extra-typings'
import { readCommands } from './command-tree.ts'
import { forBash, forFish, forZsh } from './completion-scripts.ts'
import type { CommandContext } from './context.ts'

const SCRIPTS = { bash: forBash, zsh: forZsh, fish: forFish } as const
const SHELLS = ['bash', 'zsh', 'fish'] as const

const AFTER_HELP = `
bash, in ~/.bashrc:                 source <(bagfs completion bash)
zsh, in ~/.zshrc, after compinit:   source <(bagfs completion zsh)
fish, once:                         bagfs completion fish > ~/.config/fish/completions/bagfs.fish`

/** Adds `bagfs completion`; the program that it gets has all commands. */
export function addCompletion(program: Command, { output }: CommandContext): void {
  program
    .command('completion')
    .description('print what lets a shell complete the commands and options of bagfs')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText('after', AFTER_HELP)
    .action((shell) => {
      output.raw('stdout', SCRIPTS[shell](readCommands(program)))
    })
}
