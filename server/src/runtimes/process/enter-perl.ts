/**
 * Does the work of `enter.ts` in a sandbox: executes a command with variables that no process list shows. Perl starts
 * in some milliseconds, Node in some forty, and every command waits for this start. The script loads no module, because
 * a system may lack Perl modules.
 *
 * Descriptor 3 provides a count, then as many texts (the file and its arguments), then the variables. A zero byte ends
 * each text.
 */
const program = [
  'open my $in, "<&=3" or exit 126;',
  'my ($count, @texts) = split /\\0/, do { local $/; <$in> }, -1;',
  'close $in;',
  'pop @texts;',
  'my ($file, @args) = splice @texts, 0, $count;',
  '%ENV = map { split /=/, $_, 2 } @texts;',
  'exec { $file } $file, @args or print STDERR "$file: $!\\n";',
  'exit 126;',
].join(' ')

/** Returns the command line that executes the command from `perlEntrance`. */
export const perlCommand = (perl: string): [string, ...string[]] => [perl, '-e', program]

/** Returns the input on descriptor 3. */
export function perlEntrance(argv: readonly string[], env: Readonly<Record<string, string>>): string {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  return [argv.length, ...argv, ...variables].map((text) => `${text}\0`).join('')
}
