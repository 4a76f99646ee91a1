import { invalidRequest } from '../../contract/errors.ts'
import type { NewDeployment } from '../rows.ts'
import type { SourceColumns } from '../source-of.ts'

/** The source of a deployment, and the runtime that makes its release, as its row has them. */
export type DeploymentSource = Pick<
  NewDeployment,
  | 'gitUrl'
  | 'sourceId'
  | 'image'
  | 'imageDigest'
  | 'fromId'
  | 'branch'
  | 'commit'
  | 'commitDetails'
  | 'root'
  | 'runtime'
>

/** The names of the runtimes of this server. */
export interface RuntimeNames {
  /** Builds and runs new releases of sources. */
  readonly preferred: string
  /** Runs container images; null without one. */
  readonly images: string | null
}

/** The fields of a source without any. */
export const noSource: Omit<DeploymentSource, 'runtime'> = {
  gitUrl: '',
  sourceId: null,
  image: null,
  imageDigest: null,
  fromId: null,
  branch: null,
  commit: null,
  commitDetails: null,
  root: null,
}

/** Tells the operator's users how a server comes to run images. */
const noImages =
  'is not possible: this server runs no container images. Its operator turns Docker on with FAIRLEAD_RUNTIME=process,docker'

/**
 * Returns the source of a deployment of an image. Throws `invalid_request` when this server runs none.
 *
 * @param image.digest the digest that it is to have; null for the one that its reference has now
 */
export function imageSource(
  { reference, digest }: { readonly reference: string; readonly digest: string | null },
  { images }: Pick<RuntimeNames, 'images'>,
): DeploymentSource {
  if (images === null) throw invalidRequest({ field: 'image', message: noImages })
  return { ...noSource, image: reference, imageDigest: digest, runtime: images }
}

/** Returns the columns that say where the code of a source comes from. */
export const rowOf = ({
  gitUrl,
  sourceId,
  image,
}: Pick<DeploymentSource, 'gitUrl' | 'sourceId' | 'image'>): SourceColumns => ({
  git_url: gitUrl,
  source_id: sourceId,
  image,
})
