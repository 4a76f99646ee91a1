import type { Command } from '../platform/command.ts'
import { imageCommandName, type ToolRequest } from '../platform/toolchain.ts'

/** The variables that a repository says its app needs, without their values. */
export interface SampleVariables {
  /** The file that names them. */
  readonly file: string
  readonly names: readonly string[]
}

/** A schedule in `fairlead.json`: a command at the times of five fields. */
export interface CronSettings {
  readonly name: string
  readonly schedule: string
  readonly timezone: string
  readonly command: readonly [string, ...string[]]
  readonly overlap: 'forbid' | 'allow' | 'replace'
}

/** The commands that turn a source tree into a running app. Made by the pure function `planBuild`. */
export interface BuildPlan {
  /** The name of the detector that recognised the app. */
  readonly kind: string
  /** Run in order in the source tree; the first that fails ends the build. */
  readonly build: readonly Command[]
  /** Runs once, when the build is done and before the release starts. */
  readonly release?: Command
  /** The Dockerfile that makes the release a container image, in place of commands. */
  readonly image?: DockerfilePlan
  /** Runs for the life of the release. */
  readonly start: Command
  /**
   * Starts of which the first whose files the build has made takes the place of `start`: only the build shows what it makes.
   * A plan that is stored with its release has none any more.
   */
  readonly outputs?: readonly StartOutput[]
  /** The process types of the app: `web`, which `start` runs, and those beside it. */
  readonly processes?: Readonly<Record<string, ProcessPlan>>
  /** Commands that run at times, beside the app. */
  readonly cron?: readonly CronSettings[]
  /** The folders that are kept over releases: the absolute path of each in the app, by its name. */
  readonly volumes?: Readonly<Record<string, string>>
  /** The path that tells whether the app is healthy; without one, any answer on `/` below 500 is. */
  readonly health?: string
  /** The programs that the commands are meant to run with; the server's own where nothing is asked for. */
  readonly toolchain?: readonly ToolRequest[]
  /** Sentences for the build log: what was chosen and why, and warnings. */
  readonly notes?: readonly string[]
  /** The variables that the repository says its app needs. */
  readonly samples?: SampleVariables
}

/** The build of an image. */
export interface DockerfilePlan {
  /** From the top of the sources. */
  readonly path: string
  /** The stage to build; null for the last one. */
  readonly target: string | null
  /** The folder whose files the build sees, from the top of the sources; `.` for all of them. */
  readonly context: string
}

/** A process type as the repository describes it. */
export interface ProcessPlan {
  /** Absent for `web`. */
  readonly command?: Command
  readonly instances?: number
  /** In 10⁶ bytes. */
  readonly memoryMb?: number
  readonly cpus?: number
  /** Of `web` alone: a client stays at the instance that it has reached. */
  readonly sticky?: true
}

/** A start that depends on what the build has made. */
export interface StartOutput {
  /** Paths from the top of the sources, of which one must be there. */
  readonly paths: readonly string[]
  readonly start: Command
  /** Set where a configuration may move the output: its files, and the words of the start, are known with another folder in its place. */
  readonly moves?: {
    /** From the top of the sources. The paths begin with it. */
    readonly folder: string
    /** The folder of the app, in which the words of the start are read. */
    readonly root: string
    /** A name beside the files without which they are none of this output. */
    readonly beside?: string
  }
  /** A further sentence for the case that none is there. */
  readonly advice?: string
}

/** The plan of a release that is an image already: nothing is built, and it starts as the image says. */
export const imagePlan: BuildPlan = { kind: 'image', build: [], start: { argv: [imageCommandName] } }

/** The kind of plans whose release is made of a Dockerfile. */
export const dockerfileKind = 'dockerfile'

/** True for a plan whose release is a container image. */
export const isOfImage = ({ kind }: Pick<BuildPlan, 'kind'>): boolean =>
  kind === imagePlan.kind || kind === dockerfileKind

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
