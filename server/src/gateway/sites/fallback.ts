import { extname, join } from 'node:path'
import { mimes } from 'mrmime'
import { type FoundFile, isHidden, openFile } from './files.ts'

/**
 * Finds the page of a site whose routes exist in the browser alone, for a path that has no file: its `200.html`, or else its
 * `index.html` where it has no `404.html`, which is the site's own answer. Returns `null` for a path that ends as a file
 * does: a script that an earlier release had must be missing, and no page.
 *
 * @param root the real path of the served folder
 */
export async function findFallback(root: string, segments: readonly string[]): Promise<FoundFile | null> {
  if (
    segments.some(isHidden) ||
    Object.hasOwn(
      mimes,
      extname(segments.at(-1) ?? '')
        .slice(1)
        .toLowerCase(),
    )
  )
    return null
  const page = await openFile(root, join(root, '200.html'))
  if (page !== null) return page
  const missing = await openFile(root, join(root, '404.html'))
  await missing?.file.close()
  return missing === null ? openFile(root, join(root, 'index.html')) : null
}
