/** How a service lists what was uploaded as the folder NAME: as `NAME`, or as `NAME.zip`. */
export type FolderNaming = 'plain' | 'zipped'

const ZIP = /\.zip$/i

/** True for NAME.zip; a bag that is called `.zip` and nothing else keeps its name. */
export function isZipName(name: string): boolean {
  return name.length > 4 && ZIP.test(name)
}

export function withoutZip(name: string): string {
  return name.replace(ZIP, '')
}

/** How a record of this name lists what was uploaded; undefined when it is of something else. */
export function listedAs(
  recordName: string,
  uploaded: { readonly name: string; readonly isFolder?: boolean },
): FolderNaming | undefined {
  if (recordName === uploaded.name) return 'plain'
  return uploaded.isFolder === true && recordName === `${uploaded.name}.zip` ? 'zipped' : undefined
}
