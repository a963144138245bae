import type { Logger } from '../domain/logger.ts'
import { openDatagrams, type SendDatagram } from '../kernel/datagram.ts'

/** Tells the service manager that started this process how the drive is: sd_notify(3). */
export class ServiceManager {
  readonly #send: SendDatagram
  #isStopping = false
  #status = ''

  private constructor(send: SendDatagram) {
    this.#send = send
  }

  /** `socket` is the value of `NOTIFY_SOCKET`. */
  static async open(socket: string): Promise<ServiceManager> {
    return new ServiceManager(await openDatagrams(socket))
  }

  /** The drive answers. */
  ready(log: Logger, status: string): void {
    this.#tell(log, ['READY=1'], status)
  }

  /** The drive leaves, and tells how far it is. */
  stopping(log: Logger, status: string): void {
    const first = this.#isStopping ? [] : ['STOPPING=1']
    this.#isStopping = true
    this.#tell(log, first, status)
  }

  /** A drive must not end because the service manager does not listen. */
  #tell(log: Logger, states: readonly string[], status: string): void {
    if (states.length === 0 && status === this.#status) return
    this.#status = status
    try {
      this.#send([...states, `STATUS=${status.replaceAll('\n', ' ')}`].join('\n'))
    } catch (error) {
      log.warn({ error: String(error) }, 'The service manager cannot be told how the drive is.')
    }
  }
}
