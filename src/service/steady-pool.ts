import { buildConnector, Client, Pool, type Dispatcher } from 'undici'

type DispatchHandler = Dispatcher.DispatchHandler
type DispatchOptions = Dispatcher.DispatchOptions
type Controller = Dispatcher.DispatchController

interface SteadyPoolSettings {
  readonly connections: number
  readonly connectTimeoutMs: number
}

/**
 * A pool whose connections may end while the reader of an answer takes its time. undici's parser is
 * paused then, and asserts that it is not, in an event where no code can catch it. undici 8 mends
 * that, for newer Nodes.
 */
export class SteadyPool extends Pool {
  /** A request meets its connection at the client that the pool chooses for it. */
  readonly #handlers: Handlers

  constructor(origin: string, { connections, connectTimeoutMs }: SteadyPoolSettings) {
    const connect = buildConnector({ timeout: connectTimeoutMs })
    const handlers: Handlers = new WeakMap()
    super(origin, {
      connections,
      factory: (url, options) => new SteadyClient(url, options, connect, handlers),
    })
    this.#handlers = handlers
  }

  override dispatch(options: DispatchOptions, handler: DispatchHandler): boolean {
    const steady = new SteadyHandler(handler)
    this.#handlers.set(options, steady)
    return super.dispatch(options, steady)
  }
}

type Handlers = WeakMap<DispatchOptions, SteadyHandler>

class SteadyClient extends Client {
  readonly #connection: Connection
  readonly #handlers: Handlers

  constructor(origin: URL, options: object, connect: buildConnector.connector, handlers: Handlers) {
    const connection = new Connection()
    super(origin, { ...options, connect: connection.watch(connect) })
    this.#connection = connection
    this.#handlers = handlers
  }

  override dispatch(options: DispatchOptions, handler: DispatchHandler): boolean {
    this.#handlers.get(options)?.goOver(this.#connection)
    return super.dispatch(options, handler)
  }
}

/** The connection of a client; over it comes one answer at a time. */
class Connection {
  #answer: Controller | undefined
  #hasEnded = false

  begin(answer: Controller): void {
    this.#answer = answer
  }

  over(): void {
    this.#answer = undefined
  }

  /** All that is to come is in memory by now: a pause saves nothing. */
  goOnAfterEnd(): void {
    if (this.#hasEnded && this.#answer?.paused === true) this.#answer.resume()
  }

  /** Listens to each connection before undici does. */
  watch(connect: buildConnector.connector): buildConnector.connector {
    return (options, done) => {
      connect(options, (...outcome) => {
        const [, socket] = outcome
        this.#hasEnded = false
        socket?.on('error', toPlainCut)
        socket?.on('end', () => {
          this.#hasEnded = true
          this.goOnAfterEnd()
        })
        done(...outcome)
      })
    }
  }
}

/** undici takes a reset for the end of an answer without a length, which is not whole then. */
function toPlainCut(error: NodeJS.ErrnoException): void {
  if (error.code === 'ECONNRESET') error.code = 'UND_ERR_SOCKET'
}

class SteadyHandler implements DispatchHandler {
  readonly #handler: DispatchHandler
  #connection: Connection | undefined

  constructor(handler: DispatchHandler) {
    this.#handler = handler
  }

  goOver(connection: Connection): void {
    this.#connection = connection
  }

  onRequestStart(controller: Controller, context: unknown): void {
    this.#connection?.begin(controller)
    this.#handler.onRequestStart?.(controller, context)
  }

  onResponseStart(...head: Parameters<NonNullable<DispatchHandler['onResponseStart']>>): void {
    this.#handler.onResponseStart?.(...head)
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    this.#handler.onResponseData?.(controller, chunk)
    this.#connection?.goOnAfterEnd()
  }

  onResponseEnd(...end: Parameters<NonNullable<DispatchHandler['onResponseEnd']>>): void {
    this.#connection?.over()
    this.#handler.onResponseEnd?.(...end)
  }

  onResponseError(controller: Controller, error: Error): void {
    this.#connection?.over()
    this.#handler.onResponseError?.(controller, error)
  }
}
