"""Every function and gradient with placeholders of unknown and half-known shapes: as with known
ones, and as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1
rng = np.random.default_rng(7)


def smooth(*shape: int) -> np.ndarray:
    """Values in 0.2..1.8, all different, away from the corners of piecewise functions."""
    size = int(np.prod(shape))
    return rng.permutation(np.linspace(0.2, 1.8, max(size, 1), dtype="f4")[:size]).reshape(shape)


def ints(*values: Any) -> np.ndarray:
    return np.array(values, "i4")


THREE = 3 * np.eye(3, dtype="f4")
half = smooth(3, 3)
# What the expressions are about. Floats are differentiated by.
FEEDS: dict[str, np.ndarray] = {
    "x": smooth(3, 4),
    "y": smooth(3, 4),
    "v": smooth(4),
    "s": np.array(0.7, "f4"),
    "o": smooth(3, 1),
    "u": smooth(3, 4) * np.float32(0.45),
    "sq": smooth(3, 3) + THREE,
    "spd": half @ half.T + THREE,
    "rhs": smooth(3, 2),
    "bm": smooth(2, 3, 3) + THREE,
    "spd4": smooth(4, 4),
    "b": smooth(2, 3, 4),
    "c": smooth(2, 4, 5),
    "d3": smooth(3),
    "bx": smooth(2, 3),
    "sc": np.array([0.9, 0.8], "f4"),
    "im": smooth(2, 6, 6, 3),
    "ke": smooth(3, 3, 3, 4),
    "imo": smooth(2, 6, 6, 4),
    "im4": smooth(4, 3, 3, 4),
    "dk": smooth(3, 3, 3, 2),
    "vol": smooth(1, 4, 4, 4, 2),
    "kv": smooth(2, 2, 2, 2, 3),
    "seq": smooth(2, 6, 3),
    "ks": smooth(3, 3, 4),
    "pw": smooth(1, 1, 6, 4),
    "i": np.arange(1, 13, dtype="i4").reshape(3, 4),
    "j": ints([3, 2, 1, 4], [3, 2, 1, 4], [3, 2, 1, 4]),
    "iv": ints(2, 0, 1),
    "n": np.array(2, "i4"),
    "ids": ints(0, 0, 2),
    "lab": np.array([1, 0, 3]),
    "axes": ints(0, -1),
    "one": ints(1),
    "shp": ints(3, 4),
    "nd": ints([0, 1], [2, 3]),
    "nd1": ints([1], [0]),
    "perm": ints(1, 0),
    "pads": ints([1, 2], [0, 1]),
    "mul": ints(2, 3),
    "lens": ints(2, 3),
    "bi": ints(0, 1),
    "boxes": np.array([[0, 0, 0.5, 0.5], [0.2, 0.2, 0.9, 0.9]], "f4"),
    "t": np.array([b"a b", b"cd", b"3"], object),
    "num": np.array([b"1.5", b"2", b"3"], object),
    "p": np.array([[True, False, True, True], [False] * 4, [True] * 4]),
    "q": np.array([True, False, True]),
    "z": (smooth(3, 4) + 1j * smooth(3, 4)).astype("c8"),
}
EXPRESSIONS = {
    "elementwise and others 1": r"""
        m.abs(x) ; m.add(x,v) ; m.angle(z) ; m.argmin(x) ; m.asin(u) ; m.atan2(x,y) ; m.bitcast(x,m.int32) ; m.check_numerics(x,"bad") ;
        m.clip_by_global_norm([x,v],.5)[0] ; m.clip_by_value(x,.5,v) ; m.cos(x) ; m.count_nonzero(i) ; m.diag(v) ; m.div(x,y) ;
        m.divide(x,y) ; m.equal(x,y) ; m.exp(x) ; m.fill(shp,s) ; m.floordiv(i,j) ; m.greater(x,y) ; m.identity(x) ; m.igammac(x,y) ;
        m.is_finite(x) ; m.less(x,y) ; m.log(x) ; m.logical_and(p,p) ; m.logical_xor(p,p) ; m.matmul(b,b,adjoint_a=True) ;
        m.meshgrid(v,d3) ; m.multiply(x,s) ; m.norm(x) ; m.not_equal(x,y) ; m.ones_like(x) ; m.pow(x,y) ; m.rank(x) ; m.reciprocal(x) ;
        m.roll(x,1,1) ; m.rsqrt(x) ; m.searchsorted(v,d3) ; m.sequence_mask(iv,4) ; m.shape_n([x,v]) ; m.sin(x) ; m.sqrt(x) ;
        m.stop_gradient(x) ; m.string_to_hash_bucket(t,10) ; m.string_to_number(num) ; m.tan(x) ; m.to_double(x) ;
        m.unravel_index(iv,shp) ; m.where(q,x,y) ; m.ones(shp) ; m.Print(x,[y])
    """,
    "elementwise and others 2": r"""
        m.acos(u) ; m.accumulate_n([x,y]) ; m.arg_max(x,1) ; m.arg_min(x,0) ; m.asinh(x) ; m.atanh(u) ; m.cast(x,m.int32) ;
        m.cholesky(spd) ; m.clip_by_norm(x,.5) ; m.complex(x,y) ; m.cosh(x) ; m.cross(d3,d3*2.) ; m.diag_part(sq) ; m.div(i,j) ;
        m.encode_base64(t) ; m.erf(x) ; m.expm1(x) ; m.floor(x) ; m.floormod(i,j) ; m.greater_equal(x,y) ; m.identity_n([x,v]) ;
        m.imag(z) ; m.is_inf(x) ; m.less_equal(x,y) ; m.log1p(x) ; m.logical_not(p) ; m.matmul(b,c) ; m.maximum(x,y) ; m.minimum(x,v) ;
        m.multiply(x,o) ; m.norm(x,axis=1) ; m.one_hot(lab,4) ; m.placeholder_with_default(x,None) ; m.pow(x,2) ; m.real(z) ;
        m.regex_replace(t,"a","b") ; m.roll(x,one,one) ; m.saturate_cast(x*300.,m.uint8) ; m.searchsorted(m.constant([1.,2.,3.]),d3) ;
        m.setdiff1d(iv,one) ; m.sigmoid(x) ; m.sinh(x) ; m.square(x) ; m.string_join([t,t]) ; m.string_to_hash_bucket_fast(t,10) ;
        m.substr(t,0,1) ; m.tanh(x) ; m.truncatediv(i,j) ; m.where(p) ; m.zeros_like(x) ; m.zeta(x+1.5,y)
    """,
    "elementwise and others 3": r"""
        m.acosh(x+1.) ; m.add_n([x,y]) ; m.argmax(x,axis=0) ; m.as_string(x) ; m.atan(x) ; m.bincount(i) ; m.ceil(x) ;
        m.cholesky_solve(spd,rhs) ; m.clip_by_norm(x,.5,axes=[1]) ; m.conj(z) ; m.count_nonzero(i,axis=1) ; m.cumprod(x,1) ;
        m.digamma(x) ; m.div_no_nan(x,y) ; m.ensure_shape(x,[None,4]) ; m.erfc(x) ; m.eye(n) ; m.floordiv(x,y) ; m.global_norm([x,v]) ;
        m.histogram_fixed_width(x,[0.,2.]) ; m.igamma(x,y) ; m.invert_permutation(iv) ; m.is_nan(x) ; m.lgamma(x) ; m.log_sigmoid(x) ;
        m.logical_or(p,q[:,None]) ; m.matmul(sq,rhs) ; m.maximum(x,s) ; m.mod(i,j) ; m.negative(x) ; m.norm(x,ord=1,axis=-1) ;
        m.one_hot(i%3,3,axis=1) ; m.polygamma(1.,x) ; m.range(n) ; m.realdiv(x,y) ; m.rint(x) ; m.round(x) ; m.scalar_mul(s,x) ;
        m.sequence_mask(iv) ; m.shape(x) ; m.sign(x) ; m.size(x) ; m.squared_difference(x,y) ; m.string_strip(t) ;
        m.string_to_hash_bucket_strong(t,10,[1,2]) ; m.subtract(x,y) ; m.to_float(i) ; m.truncatemod(i,j) ; m.where(p,x,y) ;
        m.zeros(shp) ; m.tuple([x,y])
    """,
    "gathers, scatters and segments": r"""
        m.broadcast_dynamic_shape(shp,one) ; m.dynamic_partition(x,iv,3) ; m.dynamic_partition(x,i%2,2) ; m.dynamic_stitch([iv],[x]) ;
        m.gather(x,iv) ; m.gather(x,iv%2,axis=1) ; m.gather(b,iv%3,axis=-1) ; m.gather(b,lens%2,axis=1,batch_dims=0) ; m.gather_nd(x,nd) ;
        m.scatter_nd(nd,sc,shp) ; m.segment_max(x,ids) ; m.segment_mean(x,ids) ; m.segment_min(x,ids) ; m.segment_sum(x,ids) ;
        m.tensor_scatter_add(x,nd,sc) ; m.tensor_scatter_nd_sub(x,nd,sc) ; m.tensor_scatter_nd_update(x,nd,sc) ; m.unique(iv) ;
        m.unique_with_counts(iv) ; m.unsorted_segment_max(x,ids,3) ; m.unsorted_segment_mean(x,ids,3) ; m.unsorted_segment_min(x,ids,3) ;
        m.unsorted_segment_sqrt_n(x,ids,3) ; m.unsorted_segment_sum(x,ids,n+1)
    """,
    "moves": r"""
        m.broadcast_to(v,shp) ; m.concat([x,y],0) ; m.concat([x,y],1) ; m.cumsum(x,1,reverse=True) ; m.depth_to_space(imo,2) ;
        m.expand_dims(x,1) ; m.expand_dims(x,-1) ; m.lin_space(s,2.,4) ; m.linspace(s,2.,4) ; m.matmul(x,y,transpose_b=True) ;
        m.matmul(x,y,transpose_a=True) ; m.pad(x,pads) ; m.pad(x,pads,"REFLECT") ; m.pad(x,pads,constant_values=s) ; m.repeat(x,2) ;
        m.repeat(x,2,axis=1) ; m.repeat(x,iv,axis=0) ; m.required_space_to_batch_paddings(shp,[2,2]) ; m.reshape(x,[-1]) ;
        m.reshape(x,[4,-1]) ; m.reshape(v,[2,2]) ; m.reverse(x,[1]) ; m.reverse(x,one) ; m.reverse_sequence(bx,lens,seq_axis=1) ;
        m.slice(x,[0,1],[2,2]) ; m.slice(x,one*[0,1],perm) ; m.slice(x,[1,1],[-1,2]) ; m.space_to_batch(im,[[0,0],[0,0]],2) ;
        m.space_to_batch_nd(im,[2,2],[[0,0],[0,0]]) ; m.batch_to_space(im4,[[0,0],[0,0]],2) ;
        m.batch_to_space_nd(im4,[2,2],[[0,0],[0,0]]) ; m.space_to_depth(im,2) ; m.split(x,2,1) ; m.split(x,[1,3],1) ; m.split(x,3) ;
        m.squeeze(o,[1]) ; m.squeeze(o) ; m.squeeze(o,-1) ; m.stack([x,y]) ; m.stack([x,y],1) ; m.stack([x,y],-1) ;
        m.strided_slice(x,[0,1],[2,3]) ; x[0] ; x[:,1] ; x[1:,::2] ; x[...,0] ; x[:,None] ; x[-1,1:3] ; x[n] ; x[n-1:,0] ; x[...,None] ;
        m.tile(x,mul) ; m.tile(x,[2,1]) ; m.transpose(x) ; m.transpose(x,perm) ; m.transpose(b,[2,0,1]) ; m.transpose(z,conjugate=True) ;
        m.unstack(x,num=3) ; m.unstack(x,num=4,axis=1) ; m.string_split(t)
    """,
    "linalg": r"""
        m.einsum("ij,kj->ik",x,y) ; m.matrix_band_part(sq,1,0) ; m.matrix_determinant(sq) ; m.matrix_inverse(sq) ;
        m.matrix_solve(sq,rhs) ; m.matrix_transpose(b) ; m.matrix_triangular_solve(sq,rhs) ; m.tensordot(x,y,[[1],[1]]) ;
        m.tensordot(b,c,[[2],[1]]) ; m.tensordot(x,x,2) ; m.tensordot(x,v,1) ; m.tensordot(b,y,[[1,2],[0,1]]) ;
        m.linalg.l2_normalize(x,1) ; m.linalg.logm(m.cast(spd,m.complex64)) ; m.linalg.matrix_rank(sq) ; m.linalg.matvec(x,v) ;
        m.linalg.matvec(sq,d3) ; m.linalg.normalize(x) ; m.linalg.normalize(x,axis=1)[0] ; m.linalg.slogdet(sq) ; m.linalg.det(bm) ;
        m.linalg.inv(bm) ; m.linalg.tensor_diag(v) ; m.linalg.tensor_diag_part(sq) ; m.linalg.band_part(sq,1,1) ; m.linalg.eye(n) ;
        m.linalg.cross(d3,d3*2.) ; m.linalg.tensordot(x,y,[[1],[1]]) ; m.linalg.norm(bm,axis=[1,2]) ; m.linalg.global_norm([x])
    """,
    "control flow": r"""
        m.foldl(lambda a,e:a+e,x) ; m.foldr(lambda a,e:a+e,x) ; m.map_fn(lambda e:e*2.,x) ; m.scan(lambda a,e:a+e,x) ;
        m.cond(s<1.,lambda:x,lambda:y) ; m.while_loop(lambda k,a:k<3,lambda k,a:(k+1,a*2.),[0,x])[1] ;
        m.case([(s<1.,lambda:x)],default=lambda:y) ; m.hessians(m.reduce_sum(v*v*v),v)
    """,
    "reductions": r"""
        m.reduce_all(p) ; m.reduce_all(p,axis=1) ; m.reduce_any(p,axis=0) ; m.reduce_logsumexp(x) ; m.reduce_logsumexp(x,axis=1) ;
        m.reduce_logsumexp(x,axis=1,keepdims=True) ; m.reduce_max(x) ; m.reduce_max(x,axis=1) ; m.reduce_mean(x) ;
        m.reduce_mean(x,axis=0) ; m.reduce_mean(x,axis=axes) ; m.reduce_min(x) ; m.reduce_min(x,axis=[1]) ; m.reduce_prod(x) ;
        m.reduce_prod(x,axis=1) ; m.reduce_sum(x) ; m.reduce_sum(x,axis=-1,keepdims=True) ; m.reduce_sum(x,axis=axes) ; m.reduce_sum(s) ;
        m.reduce_mean(s) ; m.reduce_max(s) ; m.reduce_prod(s) ; m.reduce_logsumexp(s)
    """,
    "sparse": r"""
        m.sparse_segment_mean(x,iv,ids) ; m.sparse_segment_sqrt_n(x,iv,ids) ; m.sparse_segment_sum(x,iv,ids) ;
        m.sparse_segment_sum(x,iv,ids,num_segments=4) ; m.sparse_to_dense(nd,shp,sc) ; m.sparse.from_dense(x) ;
        m.sparse.to_dense(m.sparse.from_dense(x)) ; m.sparse.reduce_sum(m.sparse.from_dense(x),1) ;
        m.sparse_tensor_dense_matmul(m.sparse.from_dense(x),y,adjoint_b=True) ; m.sparse.transpose(m.sparse.from_dense(x)).values ;
        m.sparse.expand_dims(m.sparse.from_dense(x),0).indices ; m.sparse.reshape(m.sparse.from_dense(x),[-1]).indices ;
        m.sparse_softmax(m.sparse.from_dense(x)).values ; m.sparse_add(m.sparse.from_dense(x),y) ;
        m.sparse_add(m.sparse.from_dense(x),m.sparse.from_dense(y)).values ; m.sparse_reorder(m.sparse.from_dense(x)).values ;
        m.sparse_slice(m.sparse.from_dense(x),[0,0],[2,2]).values
    """,
    "bitwise and strings": r"""
        m.bitwise.bitwise_and(i,j) ; m.bitwise.bitwise_or(i,j) ; m.bitwise.bitwise_xor(i,j) ; m.bitwise.invert(i) ;
        m.bitwise.left_shift(i,j) ; m.bitwise.right_shift(i,j) ; m.raw_ops.PopulationCount(x=i) ; m.strings.length(t) ;
        m.strings.lower(t) ; m.strings.regex_full_match(t,"a.*") ; m.strings.upper(t) ; m.strings.split(t) ; m.strings.format("{}",x) ;
        m.strings.join([t,t],"-") ; m.strings.substr(t,0,1) ; m.strings.as_string(i) ; m.summary.scalar("s",s) ;
        m.summary.histogram("h",x)
    """,
    "image": r"""
        m.image.crop_and_resize(im,boxes,bi,[2,2]) ; m.image.draw_bounding_boxes(im,boxes[None]*[[[1.]],[[1.]]]) ;
        m.image.extract_image_patches(im,[1,2,2,1],[1,2,2,1],[1,1,1,1],"VALID") ; m.image.non_max_suppression(boxes,sc,2) ;
        m.image.resize_bicubic(im,[3,3]) ; m.image.resize_bilinear(im,[3,3]) ; m.image.resize_nearest_neighbor(im,[3,3])
    """,
    "math": r"""
        m.math.bessel_i0e(x) ; m.math.erfinv(u) ; m.math.in_top_k(x,lab%4,2) ; m.math.log_softmax(x) ; m.math.multiply_no_nan(x,y) ;
        m.math.ndtri(u) ; m.math.nextafter(x,y) ; m.math.reduce_std(x) ; m.math.reduce_std(x,axis=1) ; m.math.reduce_variance(x) ;
        m.math.softmax(x) ; m.math.softmax(x,axis=0) ; m.math.softmax(b,axis=1) ; m.math.softplus(x) ; m.math.softsign(x) ;
        m.math.top_k(x,2) ; m.math.xdivy(x,y) ; m.math.xlog1py(x,y) ; m.math.xlogy(x,y) ; m.math.zero_fraction(x) ;
        m.math.l2_normalize(x)
    """,
    "nn 1": r"""
        m.nn.log_softmax(b,axis=0) ; m.nn.log_softmax(b) ; m.nn.avg_pool(im,[1,2,2,1],[1,2,2,1],"SAME") ;
        m.nn.avg_pool3d(vol,2,2,"SAME") ; m.nn.batch_normalization(x,v,v,v,v,1e-3) ; m.nn.bias_add(imo,v) ;
        m.nn.conv2d(im,ke,[1,1,1,1],"SAME") ; m.nn.conv2d_backprop_filter(im,[3,3,3,4],imo,[1,1,1,1],"SAME") ;
        m.nn.conv2d_transpose(imo,ke,[2,6,6,3],[1,1,1,1]) ; m.nn.crelu(x) ; m.nn.depthwise_conv2d(im,dk,[1,1,1,1],"SAME",rate=[2,2]) ;
        m.nn.dropout(x,rate=0.) ; m.nn.elu(x) ; m.nn.fused_batch_norm(imo,v,v)[0] ; m.nn.l2_loss(x) ;
        m.nn.local_response_normalization(im) ; m.nn.max_pool2d(im,2,2,"SAME") ;
        m.nn.max_pool_with_argmax(im,[1,2,2,1],[1,2,2,1],"SAME") ; m.nn.moments(im,[0,1,2]) ; m.nn.relu(x) ; m.nn.relu_layer(x,spd4,v) ;
        m.nn.separable_conv2d(im,dk,pw,[1,1,1,1],"SAME") ; m.nn.swish(x) ;
        m.nn.softmax_cross_entropy_with_logits(labels=m.nn.softmax(y),logits=x) ;
        m.nn.softmax_cross_entropy_with_logits(labels=m.nn.softmax(b*2.),logits=b) ;
        m.nn.softmax_cross_entropy_with_logits_v2(labels=b,logits=b,axis=0) ;
        m.nn.softmax_cross_entropy_with_logits(labels=x,logits=y,dim=0) ;
        m.nn.sparse_softmax_cross_entropy_with_logits(labels=i[:2,:3]%4,logits=b) ;
        m.nn.weighted_cross_entropy_with_logits(labels=u,logits=x,pos_weight=2.) ; m.nn.zero_fraction(x) ; m.nn.top_k(b,2) ;
        m.nn.in_top_k(x,lab,2)
    """,
    "nn 2": r"""
        m.nn.softmax(v) ; m.nn.atrous_conv2d(im,ke,2,"SAME") ; m.nn.avg_pool(im,2,2,"SAME") ;
        m.nn.avg_pool3d(vol,[1,2,2,2,1],[1,2,2,2,1],"SAME") ; m.nn.bias_add(x,v) ; m.nn.conv1d(seq,ks,1,"SAME") ;
        m.nn.conv2d(im,ke,2,"VALID") ; m.nn.conv2d_backprop_input([2,6,6,3],ke,imo,[1,1,1,1],"SAME") ;
        m.nn.conv3d(vol,kv,[1,1,1,1,1],"SAME") ; m.nn.depthwise_conv2d(im,dk,[1,1,1,1],"SAME") ;
        m.nn.depthwise_conv2d_native(im,dk,[1,1,1,1],"SAME") ; m.nn.dropout(x,keep_prob=1.) ; m.nn.embedding_lookup(x,iv) ;
        m.nn.fused_batch_norm(imo,v,v,mean=v,variance=v,is_training=False)[0] ; m.nn.leaky_relu(x) ;
        m.nn.max_pool(im,[1,2,2,1],[1,2,2,1],"SAME") ; m.nn.max_pool3d(vol,2,2,"SAME") ; m.nn.moments(x,[0]) ;
        m.nn.moments(x,[0],keep_dims=True) ; m.nn.relu6(x) ; m.nn.selu(x) ; m.nn.silu(x) ;
        m.nn.sigmoid_cross_entropy_with_logits(labels=u,logits=x) ;
        m.nn.softmax_cross_entropy_with_logits_v2(labels=m.nn.softmax(y),logits=x) ;
        m.nn.softmax_cross_entropy_with_logits(labels=m.nn.softmax(b*2.),logits=b,dim=1) ;
        m.nn.softmax_cross_entropy_with_logits(labels=v,logits=v*2.) ;
        m.nn.sparse_softmax_cross_entropy_with_logits(labels=lab,logits=x) ;
        m.nn.sparse_softmax_cross_entropy_with_logits(labels=n,logits=v) ; m.nn.xw_plus_b(x,spd4,v) ;
        m.nn.space_to_batch(im,[[0,0],[0,0]],2) ; m.nn.l2_normalize(b,-1)
    """,
}
# TensorFlow refuses these for unknown ranks, by accident of its Python; here they run.
ONLY_HERE = r"""
        m.scalar_mul(s,x) ; m.image.extract_image_patches(im,[1,2,2,1],[1,2,2,1],[1,1,1,1],"VALID") ; m.math.softmax(x,axis=0) ;
        m.math.softmax(b,axis=1) ; m.nn.log_softmax(b,axis=0) ; m.nn.atrous_conv2d(im,ke,2,"SAME") ;
        m.nn.depthwise_conv2d(im,dk,[1,1,1,1],"SAME",rate=[2,2])
"""
# Refused by both, as TensorFlow refuses them.
REFUSED = r"""
        m.boolean_mask(x,q) ; m.boolean_mask(x,p) ; m.gather_nd(b,nd1,batch_dims=1) ; m.unstack(x) ; m.nn.convolution(im,ke,"SAME") ;
        m.nn.convolution(im,ke,"SAME",dilation_rate=[2,2])
"""
# No gradient is registered yet: values alone.
VALUES = r"""
        m.betainc(x,y,u) ; m.matrix_diag(x) ; m.matrix_diag_part(b) ; m.matrix_set_diag(sq,d3) ; m.matrix_solve_ls(sq,rhs) ;
        m.matrix_square_root(spd) ; m.qr(sq) ; m.segment_prod(x,ids) ; m.self_adjoint_eigvals(spd) ; m.svd(sq,compute_uv=False) ;
        m.tensor_scatter_nd_max(x,nd,sc) ; m.tensor_scatter_nd_min(x,nd,sc) ; m.trace(sq) ; m.trace(bm) ;
        m.unsorted_segment_prod(x,ids,3) ; m.image.hsv_to_rgb(im) ; m.image.rgb_to_hsv(im) ; m.linalg.adjoint(bm) ; m.linalg.logdet(spd) ;
        m.linalg.pinv(sq) ; m.linalg.trace(sq) ; m.linalg.diag(x) ; m.linalg.diag(x,k=1) ; m.linalg.diag_part(b) ;
        m.linalg.diag_part(sq,k=(-1,1)) ; m.linalg.set_diag(sq,d3) ; m.math.bessel_i0(x) ; m.math.bessel_i1(x) ; m.math.bessel_i1e(x) ;
        m.math.cumulative_logsumexp(x,1) ; m.math.reduce_euclidean_norm(x,1)
"""


def split(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", " ").split(" ;") if part.strip()]


SHAPES: dict[str, Callable[[np.ndarray], Any]] = {
    "known": lambda a: a.shape,
    "half": lambda a: [None if d % 2 == 0 else size for d, size in enumerate(a.shape)],
    "unknown": lambda a: None,
}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in leaves(part)]
    if type(value).__name__ == "SparseTensor":
        return [value.indices, value.values, value.dense_shape]
    return [value.flat_values if type(value).__name__ == "RaggedTensor" else value]


def results(
    m: Any, expressions: list[str], kind: str, differentiate: bool = True
) -> tuple[list[Any], list[Any]]:
    """The expressions' values, and the gradients by all floats of a weighted sum over them."""
    graph = m.Graph()
    with graph.as_default():
        feeds = {
            name: m.placeholder(
                m.string if a.dtype == object else m.as_dtype(a.dtype), SHAPES[kind](a), name=name
            )
            for name, a in FEEDS.items()
        }
        made = [leaves(eval(e, {"m": m} | feeds)) for e in expressions]
        xs = [feeds[name] for name, a in FEEDS.items() if a.dtype == np.float32]
        weighted = [
            t * m.cast(1.5 + 0.1 * k, t.dtype) + m.square(t)
            for k, ts in enumerate(made)
            for t in ts
            if t.dtype.base_dtype == m.float32
        ]
        found = m.gradients(weighted, xs) if differentiate and weighted else []
        gradients = [m.constant(0.0) if g is None else m.convert_to_tensor(g) for g in found]
    config = m.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with m.Session(graph=graph, config=config) as session:
        values = session.run([made, gradients], {feeds[name]: a for name, a in FEEDS.items()})
    return values[0], values[1]


def check(name: str, got: list[Any], expected: list[Any]) -> None:
    assert len(got) == len(expected), name
    for ours, theirs in zip(got, expected, strict=True):
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert ours.shape == theirs.shape, name
        if theirs.dtype.kind in "fc":
            scale = max(1.0, float(np.max(np.abs(np.nan_to_num(theirs)), initial=0)))
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=5e-5 * scale, err_msg=name)
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


@pytest.mark.parametrize("group", EXPRESSIONS)
def test_unknown_shapes(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with known shapes, and what TensorFlow takes of unknown ranks as in TensorFlow."""
    monkeypatch.setenv("TFJIT_JIT", "off")  # shapes are the matter, not kernels
    expressions = split(EXPRESSIONS[group])
    values, gradients = results(tfjit, expressions, "known")
    for kind in ("half", "unknown"):
        again, gradients_again = results(tfjit, expressions, kind)
        for e, ours, theirs in zip(expressions, again, values, strict=True):
            check(f"{e} of {kind} shapes", ours, theirs)
        check(f"gradients of {group} of {kind} shapes", gradients_again, gradients)
    everywhere = [e for e in expressions if e not in split(ONLY_HERE)]
    expected, expected_gradients = results(tf1, everywhere, "unknown")
    if everywhere != expressions:  # other terms of the sum that is differentiated
        again, gradients_again = results(tfjit, everywhere, "unknown")
    for e, ours, theirs in zip(everywhere, again, expected, strict=True):
        check(e, ours, theirs)
    check(f"gradients of {group}", gradients_again, expected_gradients)


@pytest.mark.parametrize("expression", split(REFUSED))
def test_refused_as_in_tensorflow(expression: str) -> None:
    for m in (tf1, tfjit):
        with pytest.raises(ValueError):
            results(m, [expression], "unknown")


def test_values_without_gradients() -> None:
    expressions = split(VALUES)
    values, _ = results(tfjit, expressions, "unknown", differentiate=False)
    expected, _ = results(tf1, expressions, "known", differentiate=False)
    for e, ours, theirs in zip(expressions, values, expected, strict=True):
        check(e, ours, theirs)


@pytest.mark.parametrize("cost", ["sum", "mean"])
@pytest.mark.parametrize("jit", ["off", "eager"])
def test_linear_regression_with_placeholders_of_no_shape(
    cost: str, jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of the tutorials: a step an example, then the cost of all examples."""
    monkeypatch.setenv("TFJIT_JIT", jit)
    xs, ys = np.array([3.3, 4.4, 5.5], "f4"), np.array([1.7, 2.76, 2.09], "f4")
    found = []
    for m in (tf1, tfjit):
        with m.Graph().as_default():
            x, y = m.placeholder("float"), m.placeholder("float")
            w, b = m.Variable(0.5), m.Variable(0.1)
            squares = m.pow(m.add(m.multiply(x, w), b) - y, 2)
            loss = m.reduce_sum(squares) / 6 if cost == "sum" else m.reduce_mean(squares)
            step = m.train.GradientDescentOptimizer(0.01).minimize(loss)
            with m.Session() as session:
                session.run(m.global_variables_initializer())
                for _ in range(3):
                    for one_x, one_y in zip(xs, ys, strict=True):
                        session.run(step, {x: one_x, y: one_y})
                session.run(step, {x: xs, y: ys})
                found.append(session.run([loss, w, b], {x: xs, y: ys}))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


@pytest.mark.parametrize("op", ["FloorMod", "FloorDiv", "TruncateDiv", "TruncateMod", "Pow"])
@pytest.mark.parametrize("jit", ["off", "eager"])
def test_an_operation_without_elements_does_not_fail(
    op: str, jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", jit)
    bad = -1 if op == "Pow" else 0
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x, y = tfjit.placeholder(tfjit.int32), tfjit.placeholder(tfjit.int32)
        z = getattr(tfjit.raw_ops, op)(x=x, y=y)
        for a, b, shape in (
            ([], bad, (0,)),
            ([], [bad], (0,)),
            (np.zeros((0, 2)), [1, bad], (0, 2)),
        ):
            assert session.run(z, {x: a, y: b}).shape == shape
        fails = (
            tfjit.errors.InternalError
            if op.startswith("Truncate")
            else tfjit.errors.InvalidArgumentError
        )
        with pytest.raises(fails):
            session.run(z, {x: [1], y: [bad]})
