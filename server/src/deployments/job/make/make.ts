import type { MakeRelease } from './make-release.ts'
import type { Promote } from './promote.ts'
import type { PullImage } from './pull-image.ts'

/** Makes the function that makes a release of what its deployment names: another release, an image, or sources. */
export const createMake =
  (ways: { readonly promote: Promote; readonly pullImage: PullImage; readonly ofSources: MakeRelease }): MakeRelease =>
  (row, release, steps, signal) => {
    const { from_deployment_id: from, image } = row
    if (from !== null) return ways.promote(row, from, release, steps, signal)
    if (image !== null) return ways.pullImage(row, image, release, steps, signal)
    return ways.ofSources(row, release, steps, signal)
  }
