import { parse } from 'content-disposition'

/** The file name of a `Content-Disposition`, without any path; undefined when there is none. */
export function fileNameOfDisposition(header: string | undefined): string | undefined {
  if (header === undefined) return undefined
  const { filename } = parse(header).parameters
  const name = repairUtf8(filename ?? '')
    .split(/[/\\]/)
    .at(-1)
  return name === undefined || name === '' ? undefined : name
}

/** Header bytes come as Latin-1; services that send raw UTF-8 there mean UTF-8. */
function repairUtf8(text: string): string {
  const bytes = Buffer.from(text, 'latin1')
  if (bytes.toString('latin1') !== text) return text
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return text
  }
}
