import { execFile } from 'node:child_process'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { planned, planOf } from '../../harness/builds/planned.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const pom = (properties = '') => `<project><properties>${properties}</properties></project>`
const boot = "plugins { id 'org.springframework.boot' version '3.2.0' }"

describe('a Java app', () => {
  test.each([
    ['Maven', { 'pom.xml': pom() }, 'mvn -B -ntp -DskipTests package'],
    [
      "Maven's wrapper",
      { 'pom.xml': pom(), mvnw: '', '.mvn/wrapper/maven-wrapper.properties': '' },
      '/bin/sh ./mvnw -B -ntp -DskipTests package',
    ],
    ['half a wrapper', { 'pom.xml': pom(), mvnw: '' }, 'mvn -B -ntp -DskipTests package'],
    ['Gradle', { 'build.gradle': '' }, 'gradle --no-daemon assemble'],
    [
      "Gradle's wrapper and Spring Boot",
      { 'build.gradle.kts': boot, gradlew: '', 'gradle/wrapper/gradle-wrapper.properties': '' },
      '/bin/sh ./gradlew --no-daemon bootJar',
    ],
    ['Gradle and a program', { 'build.gradle': "plugins { id 'application' }" }, 'gradle --no-daemon installDist'],
  ])('with %s is built by it', (_, files, build) => {
    expect(planned(files)).toMatchObject({ kind: 'java', build: [build] })
  })

  test('learns its memory limit, during its build and afterwards', () => {
    const result = planOf({ 'pom.xml': pom() })
    const settings = { JAVA_TOOL_OPTIONS: expect.stringContaining('{memory}') }
    expect(result.ok && result.plan).toMatchObject({ build: [{ settings }], start: { settings } })
    const owners = planOf({ 'pom.xml': pom(), Procfile: 'web: java -jar target/*.jar' })
    expect(owners.ok && owners.plan).toMatchObject({ kind: 'procfile', build: [{ settings }], start: { settings } })
  })

  test('with a wrapper needs no Maven on the server', () => {
    const programs = new Set(['javac'])
    const files = { 'pom.xml': pom(), mvnw: '', '.mvn/wrapper/maven-wrapper.properties': '' }
    expect(planOf(files, { programs }).ok).toBe(true)
    expect(planOf({ 'pom.xml': pom() }, { programs })).toMatchObject({ failure: { code: 'mvn_missing' } })
  })

  test.each([
    [{ 'pom.xml': pom('<java.version>21</java.version>') }, 'unsupported_version'],
    [{ 'pom.xml': pom('<java.version>1.8</java.version>') }, null],
    [{ 'pom.xml': pom('<maven.compiler.release>17</maven.compiler.release>') }, null],
    [{ 'build.gradle': 'languageVersion = JavaLanguageVersion.of(11)' }, 'unsupported_version'],
    [{ 'build.gradle': 'sourceCompatibility = JavaVersion.VERSION_11' }, null],
    [{ 'build.gradle.kts': 'kotlin { jvmToolchain(17) }' }, null],
  ])('%j on Java 17: %s', (files, code) => {
    const result = planOf(files, { versions: new Map([['javac', '17.0.15']]) })
    expect(result.ok ? null : result.failure.code).toBe(code)
  })

  describe('starts', () => {
    /** Runs the start command among these files, with a `java` that prints its arguments. */
    async function started(files: readonly string[], tree: Record<string, string>) {
      await using folder = await temporaryDirectory()
      for (const file of [...files, 'programs/java']) {
        await mkdir(dirname(join(folder.path, file)), { recursive: true })
        await writeFile(join(folder.path, file), `#!/bin/sh\necho ran "$0" "$@" on "$SERVER_PORT"\n`)
        await chmod(join(folder.path, file), 0o755)
      }
      const [shell, ...args] = planned(tree).start
      const env = { PATH: `${join(folder.path, 'programs')}:/usr/bin:/bin`, PORT: '4000' }
      const run = promisify(execFile)(shell ?? '', args, { cwd: folder.path, env })
      return await run.then(
        ({ stdout }) => stdout.split('\n')[1]?.replace(/^ran \S*programs\/java /, ''),
        (error: { stderr: string }) => error.stderr.trim(),
      )
    }

    test.each([
      [['target/original-a.jar', 'target/a-1.0.jar', 'target/a-1.0-sources.jar'], '-jar target/a-1.0.jar on 4000'],
      [['target/a.jar', 'target/quarkus-app/quarkus-run.jar'], '-jar target/quarkus-app/quarkus-run.jar on 4000'],
      [['target/a.jar', 'target/a-jar-with-dependencies.jar'], '-jar target/a-jar-with-dependencies.jar on 4000'],
      [['target/a.war'], '-jar target/a.war on 4000'],
      [
        ['target/classes/A.class'],
        'The build made no jar in target/: add a Procfile with a "web:" line that names it.',
      ],
    ])('of %j start the runnable jar', async (files, line) => {
      expect(await started(files, { 'pom.xml': pom() })).toBe(line)
    })

    test('use Spring Boot’s jar instead of the plain jar, and the program that Gradle installs', async () => {
      const jars = ['build/libs/a-1-plain.jar', 'build/libs/a-1.jar']
      expect(await started(jars, { 'build.gradle': boot })).toBe('-jar build/libs/a-1.jar on 4000')
      const files = ['build/install/a/bin/a.bat', 'build/install/a/bin/a']
      expect(await started(files, { 'build.gradle': "plugins { id 'application' }" })).toBe(
        'ran build/install/a/bin/a on 4000',
      )
    })
  })
})
