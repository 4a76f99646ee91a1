import { imageName, parseImageReference } from '../../contract/image-reference.ts'

export interface SourceColumns {
  readonly git_url: string
  readonly source_id: string | null
  readonly image: string | null
}

interface ImageColumns {
  readonly image: string | null
  readonly image_digest: string | null
}

export const uploadedSources = 'uploaded sources'

/**
 * Returns the origin of a release's code: its repository, the name of its image in its registry, or one text for all
 * uploaded sources, which count as one source. Only the address of a repository contains no space, so a repository
 * cannot pass for an image: `registry.example:5000/shop` is an address for git, too.
 */
export function sourceOf({ git_url, source_id, image }: SourceColumns): string {
  if (source_id !== null) return uploadedSources
  return image === null ? git_url : `the image ${nameOf(image)}`
}

/** True for a source that is a repository, as `sourceOf` names it. */
export const isRepository = (source: string): boolean => !source.includes(' ')

export const repositoryOf = ({ git_url, source_id, image }: SourceColumns): string | null =>
  source_id === null && image === null ? git_url : null

function nameOf(reference: string): string {
  const parsed = parseImageReference(reference)
  return 'problem' in parsed ? reference : imageName(parsed)
}

/** Returns the image that a release was created with; null for another kind of source. */
export const imageOf = ({ image, image_digest: digest }: ImageColumns) =>
  image === null ? null : { reference: image, digest }
