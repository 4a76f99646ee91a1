import { imageCommandName } from '../platform/toolchain.ts'
import type { BuildPlan } from './build-plan.ts'

/** The plan of a release that is an image already: nothing is built, and it starts as the image says. */
export const imagePlan: BuildPlan = { kind: 'image', build: [], start: { argv: [imageCommandName] } }

/** The kind of plans whose release is made of a Dockerfile. */
export const dockerfileKind = 'dockerfile'

/** True for a plan whose release is a container image. */
export const isOfImage = ({ kind }: Pick<BuildPlan, 'kind'>): boolean =>
  kind === imagePlan.kind || kind === dockerfileKind
