/** What a line of the log tells beside its message, by name. */
export type LogFields = Readonly<Record<string, unknown>>

/** What the program needs of a log; cli/ makes one from pino. Fields never hold the token. */
export interface Logger {
  debug(fields: LogFields, message: string): void
  info(fields: LogFields, message: string): void
  warn(fields: LogFields, message: string): void
  error(fields: LogFields, message: string): void
}

const nothing = (): void => undefined

export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing }
