// Package outage lets a scheduler survive the time in which its API server does not answer, or answers
// everything with a failure.
//
// A client of Kubernetes waits longer after each failed list or watch, up to a minute, and so finds out
// late that the server is back. A Gate wraps the client's transport instead. It holds requests while the
// server is away, asks the server several times a second whether it answers, and then sends what it
// holds. So the client never fails, and never waits in vain. The Gate also logs and counts outages.
//
// A Gate notices an outage by questions of its own. It asks every few seconds, and at once when a request
// fails, such as the watch of an informer whose connection breaks. A question without an answer is an
// outage. Several in a row that the server answers with status 500 or more are one too; a single one is not,
// nor is a failed request while the questions are answered, nor a busy server's status 429.
package outage
