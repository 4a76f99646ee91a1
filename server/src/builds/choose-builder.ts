import { isOfImage } from './image-plan.ts'
import type { BuilderName } from './source/builder-names.ts'

/** The facts by which a builder is chosen. */
export interface BuilderFacts {
  /** `builder` in `fairlead.json`. */
  readonly asked: BuilderName | undefined
  /** True when `fairlead.json` names commands that build or start the app. */
  readonly namesCommands: boolean
  readonly hasDockerfile: boolean
  /** True when the server runs container images. */
  readonly images: boolean
  /** False when it cannot build Dockerfiles. */
  readonly canBuildImages: boolean
  /** The kind of the plan by which the app was released before; null for a new app. */
  readonly before: string | null
  /** The name of the detector that says how the app starts; null when none does. */
  readonly detected: string | null
}

/** The builder of a release, with a sentence for the build log where another one was possible. */
export interface ChosenBuilder {
  readonly builder: BuilderName
  readonly note?: string
}

/**
 * Chooses between the Dockerfile of an app and the commands that were detected. `fairlead.json` decides; an app goes on being
 * built as it was; a new app is built by its Dockerfile where the server can.
 */
export function chooseBuilder(facts: BuilderFacts): ChosenBuilder {
  const { asked, namesCommands, hasDockerfile, images, canBuildImages, before, detected } = facts
  if (asked !== undefined) return { builder: asked }
  if (!hasDockerfile || !images) return { builder: 'detected' }
  if (detected === null) return { builder: 'dockerfile' }
  if (namesCommands) return leftOut('fairlead.json says how the app is built or started')
  if (before !== null && !isOfImage({ kind: before }))
    return leftOut(`the release before was not made of it (${before})`)
  if (before === null && !canBuildImages) {
    return { builder: 'detected', note: 'The Dockerfile is not used: this server builds none.' }
  }
  const note = `The Dockerfile builds the app. With "builder": "detected" in fairlead.json, Fairlead does, as ${detected}.`
  return { builder: 'dockerfile', note }
}

const leftOut = (why: string): ChosenBuilder => ({
  builder: 'detected',
  note: `The Dockerfile is not used: ${why}. "builder": "dockerfile" in fairlead.json changes that.`,
})
