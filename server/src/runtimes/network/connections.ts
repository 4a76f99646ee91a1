/**
 * How many connections a network may have to the services of this machine: PostgreSQL, the API and the gateway have room for a
 * limited number of all.
 */
export const connectionsEach = 200
/**
 * How many connections of a network may be to PostgreSQL, where one that has not logged in takes the place of a session. No plan
 * has more for a database.
 */
export const sessionsEach = 100
/**
 * How many connections to the outside a network may begin: the kernel remembers those of all networks in one table, an ended one
 * for two minutes.
 */
export const beginning = 'limit rate over 100/second burst 2000 packets'
/**
 * How many connections to PostgreSQL a network may begin, each of which is a new process. Further ones are dropped, so that the
 * client tries again a second later.
 */
export const loginsBeginning = 'limit rate over 100/second burst 200 packets'
