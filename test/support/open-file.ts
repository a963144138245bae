import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { createInterface } from 'node:readline'

/** Runs one command a line: `w TEXT`, `p OFFSET TEXT`, `t LENGTH`, `r`, `e`, `s`, `c`; answers `ok ...` or the errno's name. */
const PROGRAM = `
import os, sys, errno
fd = os.open(sys.argv[1], eval(sys.argv[2], {'os': os}))
print('ok open', flush=True)
for line in sys.stdin:
    what, _, rest = line.rstrip('\\n').partition(' ')
    try:
        if what == 'w': print('ok', os.write(fd, rest.encode()), flush=True)
        elif what == 'p':
            at, _, text = rest.partition(' ')
            print('ok', os.pwrite(fd, text.encode(), int(at)), flush=True)
        elif what == 't': print('ok', os.ftruncate(fd, int(rest)), flush=True)
        elif what == 'r': print('ok', os.pread(fd, 1 << 16, 0).decode(), flush=True)
        elif what == 'e': print('ok', os.lseek(fd, 0, os.SEEK_END), flush=True)
        elif what == 's': print('ok', os.fsync(fd), flush=True)
        elif what == 'c': print('ok', os.close(fd), flush=True)
    except OSError as error: print(errno.errorcode[error.errno], flush=True)
`

/** A file that another program holds open. */
export class OpenFile {
  readonly #program: ChildProcessWithoutNullStreams
  readonly #answers: AsyncIterator<string>

  private constructor(program: ChildProcessWithoutNullStreams) {
    this.#program = program
    this.#answers = createInterface({ input: program.stdout })[Symbol.asyncIterator]()
  }

  /** `flags` as Python names them, e.g. `os.O_WRONLY | os.O_APPEND`. */
  static async open(path: string, flags: string): Promise<OpenFile> {
    const file = new OpenFile(spawn('python3', ['-c', PROGRAM, path, flags]))
    await file.#next()
    return file
  }

  get pid(): number | undefined {
    return this.#program.pid
  }

  async write(text: string): Promise<string> {
    return this.#ask(`w ${text}`)
  }

  async writeAt(offset: number, text: string): Promise<string> {
    return this.#ask(`p ${offset} ${text}`)
  }

  async truncate(length: number): Promise<string> {
    return this.#ask(`t ${length}`)
  }

  async read(): Promise<string> {
    return (await this.#ask('r')).replace(/^ok /, '')
  }

  /** Goes to the end, where `write` goes on. */
  async seekEnd(): Promise<string> {
    return this.#ask('e')
  }

  async sync(): Promise<string> {
    return this.#ask('s')
  }

  /** Ends the program too. */
  async close(): Promise<string> {
    const answer = await this.#ask('c')
    this.#program.stdin.end()
    return answer
  }

  /** For teardown, where a test has failed. */
  end(): void {
    this.#program.kill('SIGKILL')
  }

  async #ask(line: string): Promise<string> {
    this.#program.stdin.write(`${line}\n`)
    return this.#next()
  }

  async #next(): Promise<string> {
    const answer = await this.#answers.next()
    if (answer.done === true) throw new Error('The program that holds the file has ended.')
    return answer.value
  }
}
