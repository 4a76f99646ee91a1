/**
 * The response header that names the release that answered, in lower case as in Node's `headers`. Set by the gateway
 * alone: one that an app sends is removed.
 */
export const deploymentHeader = 'x-fairlead-deployment'

/** The same name in the spelling that the gateway puts on the wire. */
export const DEPLOYMENT_HEADER_ON_WIRE = deploymentHeader.replace(/\b[a-z]/g, (letter) => letter.toUpperCase())
