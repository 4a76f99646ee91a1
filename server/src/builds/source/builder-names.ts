/** The words of `builder` in `fairlead.json`: the app's Dockerfile makes the release, or the commands that are detected. */
export const builders = ['dockerfile', 'detected'] as const
export type BuilderName = (typeof builders)[number]
