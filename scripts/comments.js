/**
 * Fails at a comment that a reader from anywhere does not take in at once: more than 25 words without a stop, or an actor
 * that has no name. `npm run names`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

const MOST_WORDS = 25
const STOP = /(?<=[.:;?!])\s+|\n\s*\n/
const NAMELESS =
  /\b(nobody|somebody|anybody|everybody|no one|someone|anyone|everyone|whoever|(?:those|one) who)\b|(?<=(?:^|[.:;])\s*)\b(who)\b/im

const faults = ['src', 'test', 'scripts'].flatMap((top) =>
  readdirSync(top, { recursive: true })
    .filter((name) => /\.(ts|js|cjs)$/.test(name))
    .flatMap((name) => faultsIn(join(top, name))),
)
for (const fault of faults) console.error(fault)
process.exitCode = faults.length > 0 ? 1 : 0

function faultsIn(path) {
  const text = readFileSync(path, 'utf8')
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  return [...commentsOf(source, text)].flatMap(([at, comment]) => {
    const place = `${path}:${source.getLineAndCharacterOfPosition(at).line + 1}`
    const long = comment
      .split(STOP)
      .filter((sentence) => wordsOf(sentence) > MOST_WORDS)
      .map((sentence) => `${place}: over ${MOST_WORDS} words: ${sentence.replace(/\s+/g, ' ')}`)
    const [nameless] = NAMELESS.exec(comment) ?? []
    return nameless === undefined ? long : [...long, `${place}: "${nameless}" is no actor`]
  })
}

/** Comments by where they begin. */
function commentsOf(source, text) {
  const comments = new Map()
  const note = (ranges) => {
    for (const { pos, end } of ranges ?? []) comments.set(pos, plain(text.slice(pos, end)))
  }
  const visit = (node) => {
    note(ts.getLeadingCommentRanges(text, node.getFullStart()))
    note(ts.getTrailingCommentRanges(text, node.getEnd()))
    ts.forEachChild(node, visit)
  }
  visit(source)
  return comments
}

function plain(comment) {
  return comment.replace(/^\/\*\*?|\*\/$/g, '').replace(/^\s*(\/\/|\*) ?/gm, '')
}

function wordsOf(sentence) {
  return sentence.split(/\s+/).filter((word) => /\w/.test(word)).length
}
