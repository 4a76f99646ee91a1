import type { Command } from '../../platform/command.ts'
import type { SourceTree } from '../tree.ts'
import { toolVersion, versionIn } from '../version-files.ts'
import { type Detector, type DetectorSource, startLine } from './detector.ts'
import { debianTool, noteVersionFiles, refuseVersion } from './tools.ts'

const GRADLE_FILES = ['build.gradle', 'build.gradle.kts', 'settings.gradle', 'settings.gradle.kts']

/**
 * By default, Java takes a share of the machine's memory, which exceeds the app's limit. These variables set the limit.
 */
const settings = {
  JAVA_TOOL_OPTIONS: '-XX:MaxRAM={memory}m -XX:MaxRAMPercentage=55',
  MAVEN_OPTS: '-Dmaven.repo.local={cache}/maven',
}

const frameworkPorts = [
  '[ -n "$SERVER_PORT" ] || SERVER_PORT="$PORT"',
  'export SERVER_PORT QUARKUS_HTTP_PORT="$PORT" MICRONAUT_SERVER_PORT="$PORT"',
]

/** Starts the jar of the build, whose name contains a version. `$1` is its folder, such as `target`. */
const runJar = [
  ...frameworkPorts,
  'for jar in "$1"/quarkus-app/quarkus-run.jar "$1"/../quarkus-app/quarkus-run.jar "$1"/*-all.jar "$1"/*-jar-with-dependencies.jar "$1"/*.jar "$1"/*.war; do',
  'case "$jar" in */original-*|*-plain.[jw]ar|*-sources.jar|*-javadoc.jar|*-tests.jar) continue;; esac',
  'if [ -f "$jar" ]; then echo "Starting $jar"; exec java -jar "$jar"; fi',
  'done',
  'echo "The build made no jar in $1/: add a Procfile with a \\"web:\\" line that names it." >&2; exit 1',
].join('\n')

/** Starts the script that Gradle's `installDist` has created. */
const runInstalled = [
  ...frameworkPorts,
  'for file in build/install/*/bin/*; do',
  'case "$file" in *.bat) continue;; esac',
  'if [ -x "$file" ]; then echo "Starting $file"; exec "$file"; fi',
  'done',
  'echo "The build made no program in build/install/: add a Procfile with a \\"web:\\" line that names it." >&2; exit 1',
].join('\n')

interface Build {
  readonly tool: 'Maven' | 'Gradle'
  /** Undefined with a wrapper, which downloads the program. */
  readonly program: 'mvn' | 'gradle' | undefined
  readonly command: Command
  readonly start: Command
}

export const java: Detector = {
  name: 'java',
  recognises: 'a pom.xml or a build.gradle',
  files: ['pom.xml', 'system.properties', '.java-version', '.tool-versions', ...GRADLE_FILES],
  tools: [
    debianTool('Java', 'javac', 'default-jdk-headless', { args: ['-version'], pattern: /javac (\d+(?:\.\d+)*)/ }),
    debianTool('Maven', 'mvn', 'maven'),
    debianTool('Gradle', 'gradle', 'gradle'),
  ],
  caches: { GRADLE_USER_HOME: 'gradle', MAVEN_USER_HOME: 'maven-wrapper' },
  settings,
  detect(source) {
    const { app } = source
    if (!app.has('pom.xml') && !app.has('build.gradle') && !app.has('build.gradle.kts')) return null
    const build = app.has('pom.xml') ? maven(app) : gradle(app)
    return {
      ok: true,
      value: {
        start: { ...build.start, env: {} },
        programs: build.program === undefined ? ['javac'] : ['javac', build.program],
        uses: ['java'],
        notes: notesOf(source, build),
        install: () => refuseJava(source) ?? { ok: true, value: [] },
        build: [build.command],
      },
    }
  },
}

function maven(app: SourceTree): Build {
  const wrapped = app.has('mvnw') && app.has('.mvn/wrapper/maven-wrapper.properties')
  return {
    tool: 'Maven',
    program: wrapped ? undefined : 'mvn',
    command: {
      argv: [
        ...(wrapped ? (['/bin/sh', './mvnw'] as const) : (['mvn'] as const)),
        '-B',
        '-ntp',
        '-DskipTests',
        'package',
      ],
    },
    start: startLine(runJar, 'target'),
  }
}

/**
 * A Gradle build with the plugin `application` and without Spring Boot creates a folder with a script; other builds
 * create a jar.
 */
function gradle(app: SourceTree): Build {
  const wrapped = app.has('gradlew') && app.has('gradle/wrapper/gradle-wrapper.properties')
  const text = GRADLE_FILES.map((name) => app.read(name) ?? '').join('\n')
  const isSpring = /org\.springframework\.boot/.test(text)
  const installs = !isSpring && /\bapplication\b|io\.ktor\.plugin/.test(text)
  const task = isSpring ? ['bootJar'] : installs ? ['installDist'] : ['assemble']
  return {
    tool: 'Gradle',
    program: wrapped ? undefined : 'gradle',
    command: {
      argv: [...(wrapped ? (['/bin/sh', './gradlew'] as const) : (['gradle'] as const)), '--no-daemon', ...task],
    },
    start: installs ? startLine(runInstalled) : startLine(runJar, 'build/libs'),
  }
}

/** `1.8` is the older name of 8. */
const majorOf = (text: string): string | undefined => /^\D*(?:1\.)?(\d+)/.exec(text)?.[1]

/** Refuses versions that the compiler itself would refuse. */
function refuseJava({ app, versions }: DetectorSource) {
  const pom = app.read('pom.xml') ?? ''
  const scripts = `${app.read('build.gradle') ?? ''}\n${app.read('build.gradle.kts') ?? ''}`
  const inPom = /<(?:java\.version|maven\.compiler\.(?:release|target)|release)>\s*([\d.]+)\s*</.exec(pom)
  const inScript = /(?:JavaLanguageVersion\.of\(|jvmToolchain\(|JavaVersion\.VERSION_)(\d+(?:_\d+)?)/.exec(scripts)
  const [from, found] = inPom === null ? (['build.gradle', inScript] as const) : (['pom.xml', inPom] as const)
  const text = found?.[1]?.replace('_', '.')
  const major = text === undefined ? undefined : majorOf(text)
  if (text === undefined || major === undefined) return null
  // A Gradle toolchain requires exactly this version; other settings name the lowest.
  const range =
    from === 'build.gradle' && /(?:JavaLanguageVersion|jvmToolchain)/.test(found?.[0] ?? '') ? major : `>=${major}`
  return refuseVersion({ language: 'Java', program: 'javac', from, text, range }, versions)
}

function notesOf({ app, versions }: DetectorSource, { tool, program }: Build): string[] {
  const [, heroku] = /^java\.runtime\.version\s*=\s*(\S+)/m.exec(app.read('system.properties') ?? '') ?? []
  const others = [
    { from: 'system.properties', text: heroku },
    { from: '.java-version', text: versionIn(app, '.java-version') },
    { from: '.tool-versions', text: toolVersion(app, 'java') },
  ]
  return [
    `${tool}: built by ${program === undefined ? 'the wrapper of the repository' : `this server's ${program}`}, without its tests.`,
    ...noteVersionFiles({ language: 'Java', program: 'javac' }, others, versions, (text) => majorOf(text) ?? '*'),
  ]
}
