/** The request for a plan of a source tree: all that it depends on besides the files. */
export interface PlanRequest {
  /** The folder of the app, in place of the one in `fairlead.json`; null for that one. */
  readonly root: string | null
  /** True when the server runs container images. */
  readonly images: boolean
  /** False when the server runs container images and cannot build Dockerfiles; true unless given. */
  readonly canBuildImages?: boolean
  /** The kind of the plan by which the app was released before; null for a new app. */
  readonly before: string | null
}
