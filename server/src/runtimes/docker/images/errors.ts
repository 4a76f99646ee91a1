import { RuntimeError } from '../../runtime.ts'
import { EngineError } from '../engine/error.ts'

interface Kind {
  readonly words: RegExp
  readonly error: (name: string, hasCredentials: boolean) => RuntimeError
}

/** The failures of a pull, by the words of the engine and of registries. The order matters: several words may occur together. */
const kinds: readonly Kind[] = [
  {
    words: /no space left on device/i,
    error: (name) =>
      new RuntimeError('no_space', `The disk of the server has no room for ${name}. Ask its operator to make some.`),
  },
  {
    words: /no matching manifest|platform|image operating system|exec format/i,
    error: (name) => platformError(name, null),
  },
  {
    words: /toomanyrequests|too many requests|rate limit/i,
    error: (name) =>
      new RuntimeError(
        'registry_unreachable',
        `The registry of ${name} answers no more requests of this server for now: it limits their number. Deploy again later, or with credentials.`,
      ),
  },
  {
    // Docker Hub says so of repositories that do not exist, too.
    words: /pull access denied|requested access to the resource is denied/i,
    error: (name, hasCredentials) => (hasCredentials ? denied(name, true) : hidden(name)),
  },
  {
    words:
      /unauthorized|authentication required|no basic auth credentials|incorrect username or password|forbidden|denied/i,
    error: (name, hasCredentials) => denied(name, hasCredentials),
  },
  {
    words: /manifest unknown|name unknown|not found|no such image/i,
    error: (name) =>
      new RuntimeError(
        'image_not_found',
        `The registry has no image ${name}. See its name and its tag, or push it first.`,
      ),
  },
  {
    words:
      /dial |lookup |no such host|refused|timeout|timed out|deadline|x509|tls|HTTP response to HTTPS|EOF|reset by peer|unreachable|\b50\d\b|bad gateway/i,
    error: (name) =>
      new RuntimeError(
        'registry_unreachable',
        `The registry of ${name} could not be reached from the server, or does not speak HTTPS. See its address, or deploy again later.`,
      ),
  },
]

const denied = (name: string, hasCredentials: boolean): RuntimeError =>
  new RuntimeError(
    'image_denied',
    hasCredentials
      ? `The registry of ${name} refuses the credentials that the project has for it, or they do not allow this image. Set new ones: ${howToSet(name)}.`
      : `The registry of ${name} asks for credentials. Set them for the project: ${howToSet(name)}.`,
  )

const hidden = (name: string): RuntimeError =>
  new RuntimeError(
    'image_not_found',
    `The registry has no image ${name}, or hides it from those without credentials. See its name, or set credentials for the project: ${howToSet(name)}.`,
  )

/** @param name with its registry, such as `docker.io/library/nginx` */
const howToSet = (name: string): string =>
  `fairlead registries add ${name.slice(0, name.indexOf('/'))}, or Settings of the project in the dashboard`

/** @param machine the kind of machine that the engine runs on, such as `linux/amd64`; null where it did not say */
export const platformError = (name: string, machine: string | null): RuntimeError =>
  new RuntimeError(
    'image_platform',
    `The image ${name} is made for another kind of machine than the server's${machine === null ? '' : ` (${machine})`}. Build it for that one.`,
  )

export const silentRegistry = (name: string): RuntimeError =>
  new RuntimeError(
    'registry_unreachable',
    `The registry of ${name} took a request of the server, and gave no answer. See whether it works, or deploy again later.`,
  )

/** Tells an owner what is wrong with an image or its registry, by the words of an engine; null when they say something else. */
export const imageProblem = (words: string, name: string, hasCredentials: boolean): RuntimeError | null =>
  kinds.find((each) => each.words.test(words))?.error(name, hasCredentials) ?? null

/** Tells an owner what is wrong with an image; returns the error itself when it is none of the image's or its registry's. */
export function pullError(error: unknown, name: string, hasCredentials: boolean): unknown {
  if (!(error instanceof EngineError) || error.status === null) return error
  return imageProblem(error.detail, name, hasCredentials) ?? error
}
