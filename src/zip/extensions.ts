/** File name extensions of formats that are compressed already: deflating them again gains nothing. */
const MEDIA =
  'jpg jpeg png gif webp avif heic heif jxl mp3 m4a m4b aac ogg oga ogv opus flac wma mp4 m4v mkv ' +
  'webm mov avi mpg mpeg wmv 3gp flv woff woff2'
const PACKED = 'zip gz tgz bz2 tbz2 xz txz zst lz4 lzma 7z rar br deb rpm dmg pack cab'
/** Formats that are zips inside and files to all programs. */
const ZIP_BASED =
  'docx docm dotx xlsx xlsm xltx pptx pptm potx odt ods odp odg odf epub jar war ear aar apk aab ipa ' +
  'whl egg crx xpi nupkg vsix kmz 3mf sketch xps cbz ora kra'
/** Files that people keep and that are never a zip. */
const PLAIN =
  'txt md rst csv tsv json xml yaml yml toml ini conf log html htm css js mjs cjs ts tsx jsx py rb ' +
  'php java c h cc cpp hpp rs go sh sql pdf rtf tex doc xls ppt svg bmp tif tiff ico psd wav aiff ' +
  'mid ttf otf iso img bin exe dll so o a tar eml ics vcf sqlite db key pem crt asc sig'

const setOf = (...lists: readonly string[]): ReadonlySet<string> =>
  new Set(lists.flatMap((list) => list.split(' ')))

export const COMPRESSED_EXTENSIONS = setOf(MEDIA, PACKED, ZIP_BASED)
export const ZIP_BASED_EXTENSIONS = setOf(ZIP_BASED)
/** Names with one of these are files without looking. */
export const FILE_EXTENSIONS = setOf(MEDIA, PACKED, ZIP_BASED, PLAIN)

/** The extension of a name in lower case without its dot; empty when it has none. */
export function extensionOf(name: string): string {
  const dot = name.lastIndexOf('.')
  return dot > 0 ? name.slice(dot + 1).toLowerCase() : ''
}
