/** `2026-11-23 18:02:05` in local time; text that sorts by it. */
export function localStamp(atMs: number): string {
  const at = new Date(atMs)
  const two = (number: number): string => String(number).padStart(2, '0')
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join('-')
  return `${day} ${[at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':')}`
}
