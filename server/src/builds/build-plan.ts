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

/** The commands that turn a source tree into a running app, created by the pure function `planBuild`. */
export interface BuildPlan {
  /** The name of the detector that recognised the app. */
  readonly kind: string
  /** Commands that run in order in the source tree; the first failure ends the build. */
  readonly build: readonly Command[]
  /** Runs once, after the build and before the start of the release. */
  readonly release?: Command
  /** The Dockerfile that builds the release as a container image, instead of commands. */
  readonly image?: DockerfilePlan
  /** Runs for the life of the release. */
  readonly start: Command
  /**
   * Alternatives to `start`, because only the build shows its output. The first alternative whose files exist after the
   * build replaces `start`. A stored plan has no alternatives any more.
   */
  readonly outputs?: readonly StartOutput[]
  /** The process types of the app: `web`, which `start` runs, and further types. */
  readonly processes?: Readonly<Record<string, ProcessPlan>>
  readonly cron?: readonly CronSettings[]
  /** The folders that are kept across releases: the absolute path of each volume in the app, by volume name. */
  readonly volumes?: Readonly<Record<string, string>>
  /** The path of the health check; without it, any answer on `/` below 500 is healthy. */
  readonly health?: string
  /** The requested programs for the commands. Without a request, the server's programs are used. */
  readonly toolchain?: readonly ToolRequest[]
  /** Sentences for the build log: what was chosen and why, and warnings. */
  readonly notes?: readonly string[]
  /** The variables that the repository says its app needs. */
  readonly samples?: SampleVariables
}

export interface DockerfilePlan {
  /** From the top of the sources. */
  readonly path: string
  /** The stage to build; null for the last one. */
  readonly target: string | null
  /** The build context, relative to the top of the sources; `.` for all files. */
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
  /** Only for `web`: a client stays at the instance that it has reached. */
  readonly sticky?: true
}

/** A start that depends on the output of the build. */
export interface StartOutput {
  /** Paths from the top of the sources. At least one must exist. */
  readonly paths: readonly string[]
  readonly start: Command
  /** Set if a configuration may move the output: the files and the words of the start then refer to another folder. */
  readonly moves?: {
    /** From the top of the sources. The paths begin with it. */
    readonly folder: string
    /** The folder of the app, in which the words of the start are read. */
    readonly root: string
    /** A name next to the files that proves that they are this output. */
    readonly beside?: string
  }
  /** An additional sentence if no path exists. */
  readonly advice?: string
}

/** The plan of a release from an existing image: nothing is built, and it starts as the image says. */
export const imagePlan: BuildPlan = { kind: 'image', build: [], start: { argv: [imageCommandName] } }

/** The kind of plans with a Dockerfile. */
export const dockerfileKind = 'dockerfile'

export const isOfImage = ({ kind }: Pick<BuildPlan, 'kind'>): boolean =>
  kind === imagePlan.kind || kind === dockerfileKind

/** The request for a plan: everything that the plan depends on besides the files. */
export interface PlanRequest {
  /** The folder of the app, which overrides `root` in `fairlead.json`; null to use `fairlead.json`. */
  readonly root: string | null
  /** True when the server runs container images. */
  readonly images: boolean
  /** False when the server runs container images and cannot build Dockerfiles; true unless given. */
  readonly canBuildImages?: boolean
  /** The kind of the build plan of the previous release; null for a new app. */
  readonly before: string | null
}
