package cluster

// CheckFormat does now what the client does every so often.
var CheckFormat = (*Client).checkFormat
