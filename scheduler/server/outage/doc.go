// Package outage lets a scheduler survive the time in which its API server does not answer.
//
// A client of Kubernetes waits longer after each failed list or watch, up to a minute, and so finds out
// late that the server is back. A Gate wraps the client's transport instead. It holds requests while the
// server is away, asks the server several times a second whether it answers, and then sends what it
// holds. So the client never fails, and never waits in vain. The Gate also logs and counts outages.
//
// A Gate notices an outage by requests that fail, such as the watches of informers when their connection
// breaks, and by questions of its own, which a server that hangs does not answer.
package outage
