import type { Command } from '../platform/command.ts'
import { imageCommandName, type ToolRequest } from '../platform/toolchain.ts'

export interface SampleVariables {
  readonly file: string
  readonly names: readonly string[]
}

/** A command at the times of five fields. */
export interface CronSettings {
  readonly name: string
  readonly schedule: string
  readonly timezone: string
  readonly command: readonly [string, ...string[]]
  readonly overlap: 'forbid' | 'allow' | 'replace'
}

/** Turns a source tree into a running app. Created by the pure function `planBuild`. */
export interface BuildPlan {
  readonly kind: string
  /** These commands run in order in the source tree; the first failure ends the build. */
  readonly build: readonly Command[]
  /** Runs once, between the build and the start of the release. */
  readonly release?: Command
  /** Builds the release as a container image, in place of commands. */
  readonly image?: DockerfilePlan
  readonly start: Command
  /**
   * Alternatives to `start`, because only the build shows its output. The first whose files exist after the build
   * replaces `start`. A stored plan has no alternatives any more.
   */
  readonly outputs?: readonly StartOutput[]
  /** The process types of the app: `web`, which `start` runs, and further types. */
  readonly processes?: Readonly<Record<string, ProcessPlan>>
  readonly cron?: readonly CronSettings[]
  /** The folders that are kept across releases: the absolute path of each volume in the app, by volume name. */
  readonly volumes?: Readonly<Record<string, string>>
  /** The path of the health check. Without it, any answer on `/` below 500 is healthy. */
  readonly health?: string
  /** The programs that the app requests. Without a request, the server's programs are used. */
  readonly toolchain?: readonly ToolRequest[]
  /** Sentences for the build log: what was chosen and why, and warnings. */
  readonly notes?: readonly string[]
  readonly samples?: SampleVariables
}

export interface DockerfilePlan {
  /** The path of the Dockerfile, from the top of the sources. */
  readonly path: string
  readonly target: string | null
  /** The build context, relative to the top of the sources; `.` for all files. */
  readonly context: string
}

export interface ProcessPlan {
  readonly command?: Command
  readonly instances?: number
  /** The memory limit in 10⁶ bytes. */
  readonly memoryMb?: number
  readonly cpus?: number
  /** Only for `web`: a client stays at the instance that it has reached. */
  readonly sticky?: true
}

/** A start that depends on the build's output. One of the paths must exist. */
export interface StartOutput {
  readonly paths: readonly string[]
  readonly start: Command
  /**
   * Set if a configuration may move the output to another folder, which then replaces `folder` in the paths and the
   * start.
   */
  readonly moves?: {
    readonly folder: string
    /** The words of the start are read in this folder. */
    readonly root: string
    /** A file beside the output that proves that it is this output. */
    readonly beside?: string
  }
  readonly advice?: string
}

/** The plan of a release from an existing image: nothing is built, and it starts as the image says. */
export const imagePlan: BuildPlan = { kind: 'image', build: [], start: { argv: [imageCommandName] } }

export const dockerfileKind = 'dockerfile'

export const isOfImage = ({ kind }: Pick<BuildPlan, 'kind'>): boolean =>
  kind === imagePlan.kind || kind === dockerfileKind

/** Everything that a plan depends on besides the files. */
export interface PlanRequest {
  /** The folder of the app. It overrides `root` in `fairlead.json`; null to use `fairlead.json`. */
  readonly root: string | null
  readonly images: boolean
  /** False when the server runs container images and cannot build Dockerfiles. True by default. */
  readonly canBuildImages?: boolean
  /** The kind of the previous release's plan; null for a new app. */
  readonly before: string | null
}
