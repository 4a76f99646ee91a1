import { describe, expect, test } from 'vitest'
import { failure, planned, planOf } from '../../harness/builds/planned.ts'

const manifest = (name: string, more = '') => `[package]\nname = "${name}"\nversion = "1.0.0"\n${more}`
const clean = 'rm -rf target/release/deps target/release/build target/release/incremental'

describe('a Rust app', () => {
  test.each([
    ['a program', { 'Cargo.toml': manifest('shop'), 'src/main.rs': '' }, 'cargo build --release', 'shop'],
    [
      'a lock file',
      { 'Cargo.toml': manifest('shop'), 'Cargo.lock': '', 'src/main.rs': '' },
      'cargo build --release --locked',
      'shop',
    ],
    [
      'a program of another name',
      { 'Cargo.toml': manifest('shop', '[[bin]]\nname = "web"\npath = "web.rs"\n'), 'src/main.rs': '' },
      'cargo build --release',
      'web',
    ],
    [
      'several programs and a default',
      { 'Cargo.toml': manifest('shop', 'default-run = "b"\n'), 'src/bin/a.rs': '', 'src/bin/b.rs': '' },
      'cargo build --release --package shop',
      'b',
    ],
    [
      'a workspace with one program',
      {
        'Cargo.toml': '[workspace]\nmembers = ["crates/*"]\n',
        'crates/core/Cargo.toml': manifest('core'),
        'crates/core/src/lib.rs': '',
        'crates/web/Cargo.toml': manifest('web'),
        'crates/web/src/main.rs': '',
      },
      'cargo build --release',
      'web',
    ],
  ])('with %s builds and starts it', (_, files, build, program) => {
    expect(planned(files)).toEqual({ kind: 'rust', build: [build, clean], start: [`target/release/${program}`] })
  })

  test('of Rocket gets its port in the variable that Rocket reads', () => {
    const files = { 'Cargo.toml': manifest('shop', '[dependencies]\nrocket = "0.5"\n'), 'src/main.rs': '' }
    expect(planned(files).start).toEqual([
      '/bin/sh',
      '-c',
      'ROCKET_PORT="$PORT" ROCKET_ADDRESS=0.0.0.0 exec "$1"',
      'sh',
      'target/release/shop',
    ])
  })

  test('without a program, with several, or with a broken file fails and says so', () => {
    expect(failure({ 'Cargo.toml': manifest('lib'), 'src/lib.rs': '' })).toMatchObject({ code: 'no_start' })
    expect(failure({ 'Cargo.toml': manifest('x'), 'src/bin/a.rs': '', 'src/bin/b.rs': '' })?.message).toContain(
      '"web: target/release/a"',
    )
    expect(failure({ 'Cargo.toml': 'a = ?' })).toMatchObject({ code: 'invalid_cargo_toml' })
  })

  test.each([
    ['edition = "2021"', '', '1.65.0', null],
    ['edition = "2024"', '', '1.65.0', 'unsupported_version'],
    ['rust-version = "1.70"', '', '1.65.0', 'unsupported_version'],
    ['rust-version = "1.60"', '', '1.65.0', null],
    ['', 'version = 4\n', '1.65.0', 'unsupported_version'],
    ['', 'version = 3\n', '1.65.0', null],
  ])('with %j and the lock file %j on Cargo %s: %s', (line, lock, there, code) => {
    const files = { 'Cargo.toml': manifest('shop', line), 'Cargo.lock': lock, 'src/main.rs': '' }
    const result = planOf(files, { versions: new Map([['cargo', there]]) })
    expect(result.ok ? null : result.failure.code).toBe(code)
  })

  test.each([{ 'rust-toolchain': '1.75.0\n' }, { 'rust-toolchain.toml': '[toolchain]\nchannel = "1.75"\n' }])(
    'with %j is built by the server’s Rust with a warning',
    (files) => {
      const all = { 'Cargo.toml': manifest('shop'), 'src/main.rs': '', ...files }
      const result = planOf(all, { versions: new Map([['cargo', '1.65.0']]) })
      expect(result.ok && result.plan.notes?.join()).toMatch(/rust-toolchain asks for Rust "1\.75/)
    },
  )
})
