/** The upper half of IBM code page 437, which names without the UTF-8 flag are written in. */
const UPPER =
  'ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐' +
  '└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0'

/** Decodes code page 437; bytes below 0x80 are ASCII. Different bytes give different text. */
export function decodeCp437(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes)
    text += byte < 0x80 ? String.fromCharCode(byte) : UPPER.charAt(byte - 0x80)
  return text
}
