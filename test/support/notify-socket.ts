import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'

/** Node has no datagrams over unix sockets: python3 takes them, and writes a line of JSON for each. */
const LISTENER = `
import json, socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
server.bind('\\0' + sys.argv[1][1:] if sys.argv[1][0] == '@' else sys.argv[1])
print(json.dumps('listening'), flush=True)
while True:
    print(json.dumps(server.recv(65536).decode()), flush=True)
`

/** What a service manager hears on its socket. */
export class NotifySocket {
  readonly messages: string[] = []
  readonly #process: ChildProcess

  private constructor(process: ChildProcess) {
    this.#process = process
  }

  static async listen(path: string): Promise<NotifySocket> {
    const child = spawn('python3', ['-c', LISTENER, path], { stdio: ['ignore', 'pipe', 'inherit'] })
    const socket = new NotifySocket(child)
    const lines = createInterface({ input: child.stdout })
    await new Promise<void>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', () => {
        reject(new Error('The socket of the test cannot be made.'))
      })
      lines.once('line', () => {
        resolve()
        lines.on('line', (line) => socket.messages.push(JSON.parse(line) as string))
      })
    })
    return socket
  }

  close(): void {
    this.#process.kill('SIGKILL')
  }
}
