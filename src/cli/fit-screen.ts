/** Of a terminal, in cells. */
export interface ScreenSize {
  readonly columns: number
  readonly rows: number
}

/** Letters of no width of their own, and those that are two cells wide (Unicode's East Asian Width, as terminals draw it). */
const NARROW = /^[\p{M}\p{Cf}]$/u
const WIDE =
  /^[\p{Emoji_Presentation}\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]$/u

/** As much of the lines as a screen has room for, the last row left for the cursor: nothing is wrapped, or scrolls away. */
export function fitScreen(lines: readonly string[], size: ScreenSize): readonly string[] {
  const most = Math.max(1, size.rows - 1)
  const left = lines.length - (most - 1)
  const all =
    lines.length <= most
      ? lines
      : [...lines.slice(0, most - 1), `(${left} more lines: bagfs status has all)`]
  return all.map((line) => fitLine(line, size.columns))
}

function fitLine(line: string, columns: number): string {
  let width = 0
  let kept = ''
  for (const letter of line) {
    width += widthOf(letter)
    if (width > columns) return `${withRoomFor(kept, columns - 1)}…`
    kept += letter
  }
  return line
}

/** The beginning of a text that is no wider. */
function withRoomFor(text: string, columns: number): string {
  let width = 0
  let kept = ''
  for (const letter of text) {
    width += widthOf(letter)
    if (width > columns) return kept
    kept += letter
  }
  return kept
}

function widthOf(letter: string): number {
  if (NARROW.test(letter)) return 0
  return WIDE.test(letter) ? 2 : 1
}
