import { pino } from 'pino'
import type { LogLevel } from '../config/options.ts'
import { DriveError } from '../domain/errors.ts'
import { localStamp } from '../domain/local-stamp.ts'
import type { Logger } from '../domain/logger.ts'
import type { Output } from './output.ts'
import { toPrintable } from '../domain/printable.ts'

export interface LogSettings {
  readonly level: LogLevel
  /** One JSON object per line instead of lines for people. */
  readonly json: boolean
  /** A file is read by `bagfs log`, which shows its times as local ones; a person reads all else as it is. */
  readonly isFile?: boolean
}

export interface LoggingDeps {
  /** Gets whole lines, with their line ends. */
  readonly write: (text: string, level: LogLevel) => void
  /** Texts that must never show, whatever field they hide in; more may come while the log runs. */
  readonly secrets: Iterable<string>
}

const HIDDEN = '[hidden]'
const SECRET_FIELDS = ['token', 'authorization', 'Authorization', 'x-authorization', 'headers']

/** Shorter texts are no tokens, and hiding them would cut up ordinary words. */
const SHORTEST_SECRET = 8

/** Makes the log. Fields that carry a token are hidden by name, and the token itself wherever it shows up. */
export function createLogger(settings: LogSettings, deps: LoggingDeps): Logger {
  const hide = (line: string): string =>
    hideSecrets(
      line,
      [...deps.secrets].filter(({ length }) => length >= SHORTEST_SECRET),
    )
  const logger = pino(
    {
      level: settings.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_FIELDS.flatMap(atTwoDepths), censor: HIDDEN },
      serializers: { error: pino.stdSerializers.err },
    },
    {
      write: (line: string) => {
        const { level } = JSON.parse(line) as { readonly level: LogLevel }
        deps.write(hide(settings.json ? line : toHumanLine(line, settings)), level)
      },
    },
  )
  return {
    debug: logger.debug.bind(logger),
    info: logger.info.bind(logger),
    warn: logger.warn.bind(logger),
    error: logger.error.bind(logger),
  }
}

/** A text without these secrets. */
export function hideSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((shown, secret) => shown.replaceAll(secret, HIDDEN), text)
}

/** The log of a command: on stderr. */
export function createStderrLogger(
  output: Output,
  secrets: Iterable<string> = [],
  settings: LogSettings = { level: 'warn', json: false },
): Logger {
  const write = (text: string, level: LogLevel): void => {
    output.log(text, level)
  }
  return createLogger(settings, { write, secrets })
}

function atTwoDepths(field: string): readonly string[] {
  const key = /^\w+$/.test(field) ? `.${field}` : `["${field}"]`
  return [key.replace(/^\./, ''), `*${key}`]
}

/** `2026-11-26 13:00:01 warn  The listing is old. age=5 url=...`; in a file with the time that pino gives. */
function toHumanLine(json: string, { isFile = false }: LogSettings): string {
  const { level, time, msg, ...fields } = JSON.parse(json) as Readonly<Record<string, unknown>>
  const clock = isFile ? String(time) : localStamp(Date.parse(String(time)))
  const rest = Object.entries(fields).map(([name, value]) => ` ${name}=${toText(value)}`)
  const lines = `${clock} ${String(level).padEnd(5)} ${String(msg)}${rest.join('')}`.split('\n')
  return `${lines.map(toPrintable).join('\n  ')}\n`
}

function toText(value: unknown): string {
  if (isLoggedError(value)) {
    // Of what the drive has not foreseen, the place in the code matters.
    if (value.type !== DriveError.name) return String(value.stack)
    return JSON.stringify(String(value.message).replaceAll('.: ', ': '))
  }
  return typeof value === 'string' && /^[\w./:@-]+$/.test(value) ? value : JSON.stringify(value)
}

/** What pino makes of an error: the message has those of its causes. */
function isLoggedError(
  value: unknown,
): value is { readonly type: unknown; readonly message: unknown; readonly stack: unknown } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'stack' in value &&
    'message' in value &&
    'type' in value
  )
}
