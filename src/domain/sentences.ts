/** `The account is full (waits for you)`: a sentence with a word beside it, which goes on or is to be ended. */
export function withAside(sentence: string, aside: string): string {
  return `${sentence.replace(/\.$/, '')} (${aside})`
}
